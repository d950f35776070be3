/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a server with a small service made for tests, and the
 * pump that runs server and clients in one thread. Methods are real numbers
 * with handlers of their own:
 *   Server/Echo        body back; "hang" never answers; "big" answers too much
 *   Server/Stats       messages "m0", "m1", ... counted by t_world.stream
 *   Processes/Exec     every message back; ends when the client ends
 *   Processes/Attach   opened by the test, later
 *   Sessions/Prompt    counts bytes; released when t_world.take is set */
#ifndef SLUICE_TESTS_T_CONN_H
#define SLUICE_TESTS_T_CONN_H

#include "conn/conns.h"
#include "t_client.h"

#define M_ECHO   1u
#define M_STATS  3u
#define M_EXEC   32u
#define M_ATTACH 33u
#define M_PROMPT 51u

/* One stream in the test service. */
struct t_op {
	struct svc_call call;
	struct t_conn *w;
	unsigned next, total;
	size_t pad;          /* message length of the counter */
	struct sli_buf echo; /* u32 length + bytes */
	uint64_t got;        /* bytes of messages */
	uint64_t owed;       /* not released */
	unsigned nmsg;
	uint64_t acked;
	int ended;
	int finished;
	int fail_at; /* counter: fail after so many; 0 = never */
};

struct t_conn {
	struct loop *loop;
	struct conns *conns;
	struct sli_limits limits;
	char dir[64];
	struct sli_addr addr;
	int tcp;
	struct t_client *clients[8];
	unsigned nclients;
	/* the service */
	struct svc_call hung[300];
	unsigned nhung;
	struct t_op *last;
	unsigned stream_total;
	size_t stream_pad;
	int stream_fail_at;
	int take;
	int gone;
	enum sli_err gone_why;
	struct svc_conn_stats totals;
	uint32_t nconns;
	struct sli_principal who;
	int done;
};

void t_conn_start(struct t_conn *w);
/* The same with a directory that the test has made. */
void t_conn_start_in(struct t_conn *w, const char *dir);
/* Everything closed, freed and checked. */
void t_conn_stop(struct t_conn *w);
/* A connected client with HELLO exchanged. */
void t_conn_client(struct t_conn *w, struct t_client *cl);
/* Turns the loop and steps every client until *flag, at most 10 s. */
void t_conn_run(struct t_conn *w, const int *flag);
/* The same for at least `turns` turns. */
void t_conn_turns(struct t_conn *w, unsigned turns);
/* svc_open with the bidi echo on a call in `hung`. */
void t_conn_open_echo(struct t_conn *w, struct svc_call c);
/* Gauges, through a call of their own on cl. */
void t_conn_totals(struct t_conn *w, struct t_client *cl);

#endif
