/* SPDX-License-Identifier: Apache-2.0 */
/* A server of links on nng for tests: accepts, echoes or only counts. */
#ifndef SLUICE_TESTS_T_LINK_H
#define SLUICE_TESTS_T_LINK_H

#include "link/link_nng.h"
#include "loop/loop.h"

/* One server end: echoes what it gets, or only counts it. */
struct t_end {
	struct t_server *srv;
	struct sli_link *link;
	uint8_t *out;
	size_t got;
	int echo;
	int rude; /* closes at its first bytes */
	int sent;
	int closed;
	enum sli_err why;
	struct t_end *next;
};

struct t_server {
	struct loop *loop;
	struct sli_listener *lis;
	struct t_end *ends;
	char dir[64];
	unsigned accepted;
	unsigned alive;
	unsigned failed;
	int hold; /* do not arm accept again after a failure */
	int echo;
	int rude_each; /* every n-th end is rude */
	int lis_closed;
};

extern const struct sli_listener_sink t_server_sink;

void t_server_start(struct t_server *s, int tcp);
/* Closes everything and checks that everything says so. */
void t_server_stop(struct t_server *s);
/* A raw socket to it; returns once it has been accepted. */
int t_server_dial(struct t_server *s);
/* Turn the loop until *flag >= want, at most 10 s. */
void t_server_turn(struct t_server *s, const unsigned *flag, unsigned want);
void t_server_turn_flag(struct t_server *s, const int *flag);

#endif
