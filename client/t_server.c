/* SPDX-License-Identifier: Apache-2.0 */
/* Typed calls on the server itself. */
#include "typed.h"

#include "sluice/v1/server.pb-c.h"

/* --- echo ----------------------------------------------------------------*/

static enum sli_err
give_echo(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__EchoResponse *m = (const void *)pm;
	sluice_bytes_fn *fn = (sluice_bytes_fn *)t->fn;

	(void)a;
	if (m)
		fn(t->arg, m->body.len ? (const void *)m->body.data : "",
		    m->body.len, NULL);
	else
		fn(t->arg, NULL, 0, err);
	return SLI_OK;
}

int
sluice_echo(sluice_client *c, const void *p, size_t n, sluice_bytes_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__EchoRequest req = SLUICE__V1__ECHO_REQUEST__INIT;
	const struct sli_typed t = {
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__echo_response__descriptor,
	    .give = give_echo,
	};

	req.body = sli_pb_bytes(p, n);
	return sli_typed_call(
	    c, "sluice.v1.Server/Echo", &req.base, NULL, &t, ret_s, err);
}

/* --- info ----------------------------------------------------------------*/

static enum sli_err
give_info(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__ServerInfo *m = (const void *)pm;
	sluice_server_info_fn *fn = (sluice_server_info_fn *)t->fn;
	struct sluice_server_info i = {.size = sizeof(i)};

	if (!m) {
		fn(t->arg, NULL, err);
		return SLI_OK;
	}
	i.version = m->version;
	i.boot_id = sli_hex_str(a, m->boot_id.data, m->boot_id.len);
	i.principal = m->principal;
	i.role = m->role;
	i.uptime_ms = m->uptime_ms;
	i.pid = m->pid;
	i.uid = m->uid;
	i.connections = m->connections;
	i.streams = m->streams;
	i.vms = m->vms;
	i.sessions = m->sessions;
	if (!i.boot_id)
		return SLI_E_NOMEM;
	fn(t->arg, &i, NULL);
	return SLI_OK;
}

int
sluice_server_info(sluice_client *c, sluice_server_info_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__ServerInfoRequest req =
	    SLUICE__V1__SERVER_INFO_REQUEST__INIT;
	const struct sli_typed t = {
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__server_info__descriptor,
	    .give = give_info,
	};

	return sli_typed_call(
	    c, "sluice.v1.Server/Info", &req.base, NULL, &t, ret_s, err);
}

/* --- stats ---------------------------------------------------------------*/

static enum sli_err
give_stat(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__Stat *m = (const void *)pm;
	sluice_stat_fn *fn = (sluice_stat_fn *)t->fn;
	struct sluice_stat st = {.size = sizeof(st)};

	(void)a;
	if (!m) {
		fn(t->arg, NULL, err);
		return SLI_OK;
	}
	st.name = m->name;
	st.scope = m->scope;
	st.unit = m->unit;
	st.value = m->value;
	fn(t->arg, &st, NULL);
	return SLI_OK;
}

int
sluice_server_stats(sluice_client *c, int buffers, sluice_stat_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__StatsRequest req = SLUICE__V1__STATS_REQUEST__INIT;
	const struct sli_typed t = {
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__stat__descriptor,
	    .give = give_stat,
	};

	req.buffers = buffers != 0;
	return sli_typed_call(
	    c, "sluice.v1.Server/Stats", &req.base, NULL, &t, ret_s, err);
}

/* --- doctor --------------------------------------------------------------*/

static enum sli_err
give_line(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__DoctorLine *m = (const void *)pm;
	sluice_doctor_fn *fn = (sluice_doctor_fn *)t->fn;
	struct sluice_doctor_line d = {.size = sizeof(d)};

	(void)a;
	if (!m) {
		fn(t->arg, NULL, err);
		return SLI_OK;
	}
	d.name = m->name;
	d.state = m->state;
	d.detail = m->detail;
	d.remedy = m->remedy;
	fn(t->arg, &d, NULL);
	return SLI_OK;
}

int
sluice_server_doctor(sluice_client *c, sluice_doctor_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__DoctorRequest req = SLUICE__V1__DOCTOR_REQUEST__INIT;
	const struct sli_typed t = {
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__doctor_line__descriptor,
	    .give = give_line,
	};

	return sli_typed_call(
	    c, "sluice.v1.Server/Doctor", &req.base, NULL, &t, ret_s, err);
}
