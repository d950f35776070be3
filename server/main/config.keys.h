/* SPDX-License-Identifier: Apache-2.0 */
/* Every keyword of the configuration file: name, argument form, and what it
 * does. sluiced.conf(5) is checked against it (tools/dev/docs.sh). A limit of
 * limits.def is set by its own key. Has no include guard on purpose. */
SLUICED_KEY(listen, "URL",
    "address to listen on: unix:///PATH or, with "
    "--insecure-loopback, tcp://127.0.0.1:7584; may repeat")
SLUICED_KEY(state, "DIR", "state directory: history and locks")
SLUICED_KEY(user, "NAME", "account the server becomes when started as root")
SLUICED_KEY(uid, "UID TENANT ROLE",
    "let this unix uid in: a tenant number "
    "and viewer, user, operator or admin; may repeat")
SLUICED_KEY(mount_allow, "PATH",
    "host directory that admins may mount into VMs; may repeat; none given: "
    "nothing when started as root, else what the server's user can read")
SLUICED_KEY(agent, "NAME ARGV...",
    "agent command, run inside the VM; may "
    "repeat")
SLUICED_KEY(insecure_loopback, "yes|no",
    "allow plaintext TCP on loopback: "
    "everybody on this host is let in as role user")
SLUICED_KEY(log_level, "err|warn|notice|info|debug", "what goes to stderr")
