/* SPDX-License-Identifier: Apache-2.0 */
/* A real server for a test: its own temp directory, state and socket, the
 * built programs, as root or as an ordinary user. Runs the sluice command,
 * looks at processes from outside, and tells what is left behind. Everything
 * here fails the test (cmocka) when it cannot do what it says. */
#ifndef SLUICE_TEST_WORLD_H
#define SLUICE_TEST_WORLD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct world {
	char dir[128]; /* mode 0755; state/, run/, log, conf in it */
	char url[192];
	char conf[4096]; /* lines of the configuration; add before start */
	pid_t pid;       /* of sluiced; 0 = not running */
	pid_t bg[64];    /* commands in the background */
	unsigned nbg;
	unsigned starts;
};

/* Make the directory. world_done kills what runs, checks that nothing is left
 * (processes, mounts, cgroups) and removes it. */
void world_init(struct world *w);
void world_done(struct world *w);
/* Add a configuration line, printf style. */
void world_conf(struct world *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Start sluiced and wait until it answers. */
void world_start(struct world *w);
/* Start it and expect that it does not come up: returns its exit status; the
 * log then says why. */
int world_start_fails(struct world *w);
/* SIGKILL, and wait until it and its helpers are gone. */
void world_kill(struct world *w);
/* SIGTERM; must exit with status 0 within 20 s. */
void world_stop(struct world *w);
/* Still the same server process, alive? */
int world_alive(const struct world *w);
/* Does the log hold this text? Prints nothing. */
int world_log_has(const struct world *w, const char *text);

struct run {
	int status;      /* exit status; 128+n on signal n */
	char *out, *err; /* NUL-terminated; run_free */
	size_t out_len, err_len;
	int64_t ms; /* how long it took */
};

/* Run "sluice ARGS..." (argv without the program, NULL-terminated) to its end,
 * at most timeout_ms (then it is killed and the test fails). stdin: `in` of
 * in_len bytes, or /dev/null when NULL. */
void world_cli(struct world *w, struct run *r, int timeout_ms, const void *in,
    size_t in_len, const char *const *argv);
/* The same by words: SLUICE(w, &r, "vm", "list"). */
#define SLUICE(w, r, ...)                   \
	world_cli((w), (r), 60000, NULL, 0, \
	    (const char *const[]){__VA_ARGS__, NULL})
/* Runs, must exit 0; returns stdout without its last newline (caller frees
 * with free). */
char *world_ok(struct world *w, const char *const *argv);
#define SLUICE_OK_OUT(w, ...) \
	world_ok((w), (const char *const[]){__VA_ARGS__, NULL})
void run_free(struct run *r);
/* Start one in the background; stdout and stderr go to files. Returns its pid;
 * world_wait_cli gives its exit status. */
pid_t world_bg(struct world *w, const char *out_path, const char *err_path,
    const char *const *argv);
int world_wait_bg(struct world *w, pid_t pid, int timeout_ms);

/* --- VMs and FAKE agents (world_acp.c) -------------------------------------*/

/* A new VM; its id in dst. */
void world_vm(struct world *w, char *dst, size_t cap);
/* Copy a file of ours into the VM, mode 0755. */
void world_put(
    struct world *w, const char *vm, const char *from, const char *to);
/* A session on FAKE (tests/fake/README.md) with this script, idle when it
 * returns; its log is /root/fake.log in the VM. `extra`: more arguments of
 * `sluice session open`, NULL-terminated, or NULL. */
void world_fake(struct world *w, const char *vm, const char *script,
    const char *const *extra, char *dst, size_t cap);
/* The lines that FAKE got so far; caller frees. */
char *world_fake_log(struct world *w, const char *vm);
/* Whole history, one JSON event a line; caller frees. */
char *world_history(struct world *w, const char *session);
/* Wait until the session has n pending permissions; the request number of the
 * first is returned (0 when n is 0). */
uint64_t world_pending(struct world *w, const char *session, unsigned n);
/* The `state` of the session in dst. */
void world_state(struct world *w, const char *session, char *dst, size_t cap);

/* --- looking from outside -------------------------------------------------*/

/* Monotonic ms. */
int64_t world_now_ms(void);
/* Poll fn(ctx) until it is true; fails the test after timeout_ms. The only
 * wait that a test needs. */
void world_until(
    int (*fn)(void *ctx), void *ctx, int timeout_ms, const char *what);
/* Rest a few ms between two looks. */
void world_rest(int ms);
/* A number out of /proc/PID/status, e.g. "VmRSS" (KiB); -1 when gone. */
long world_proc_status(pid_t pid, const char *field);
/* Open descriptors and threads of a process. */
int world_proc_fds(pid_t pid);
/* Processes that should not be: those whose arguments name this world's
 * directory, and whatever the server left behind (this process adopts
 * orphans). The server itself and commands in the background apart. */
int world_processes(struct world *w);
/* A whole file; NULL when it is not there; caller frees. */
char *world_read(const char *path, size_t *ret_len);
/* How often `needle` stands in `text`. */
unsigned world_count(const char *text, const char *needle);
/* Value of the first "key":<number> or "key":"text" in a JSON text; 0 when it
 * is not there. For our own output only. */
int world_json_u64(const char *json, const char *key, uint64_t *ret);
int world_json_str(const char *json, const char *key, char *ret, size_t cap);
/* Path of a built program: "t/fake-agent", "bin/sluice". */
const char *world_built(const char *rel, char *dst, size_t cap);
/* 1 when this test runs in `make test-long`. */
int world_long(void);

#endif
