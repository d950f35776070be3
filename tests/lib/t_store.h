/* SPDX-License-Identifier: Apache-2.0 */
/* A store for tests: a directory of its own, the mailbox turned by hand, and
 * blocking forms of the calls that answer by post. */
#ifndef SLUICE_TESTS_T_STORE_H
#define SLUICE_TESTS_T_STORE_H

#include "store/store.h"

struct t_store {
	char dir[64];
	struct sli_mailbox *mb;
	struct store_cfg cfg;
	struct store *st;
	struct sli_errinfo fatal;
	unsigned fatals, moves, full, room;
	uint64_t moved_head;
	char moved_sid[SLI_ID_MAX];
	/* The last answer of a blocking call. */
	int answered;
	enum sli_err code;
	uint64_t seq;
};

/* A new directory (under /dev/shm when shm) and an open store in it. */
void t_store_new(struct t_store *t, int shm);
/* Again over what is there; asserts success. */
void t_store_open(struct t_store *t);
void t_store_open_manual(struct t_store *t);
/* Close only, or with the directory. */
void t_store_close(struct t_store *t);
void t_store_free(struct t_store *t);

/* Run posts until *flag is not 0; fails the test after 20 s. */
void t_store_wait(struct t_store *t, const int *flag);
/* Run what is posted now, and for a manual store what is asked. */
void t_store_spin(struct t_store *t);

/* Blocking calls: the code; t->seq is the first seq. */
enum sli_err t_store_session(struct t_store *t, const char *sid);
enum sli_err t_store_add(
    struct t_store *t, const char *sid, const void *body, size_t n);
enum sli_err t_store_commit(struct t_store *t, const char *sid,
    const struct sli_record *recs, unsigned n);
enum sli_err t_store_del(struct t_store *t, const char *sid);
enum sli_err t_store_trim(struct t_store *t, const char *sid, uint64_t low);
/* For the calls that are made by hand: done and ctx. */
void t_store_done(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei);

/* A record with one event and nothing else. */
struct sli_record t_store_event(const void *body, size_t n);

/* A page, copied: at most 1024 events. */
struct t_page {
	struct sli_event ev[1024];
	uint8_t *mem;
	unsigned n;
	uint64_t first_lost, last_lost, low;
	int more, answered;
	enum sli_err code;
};

void t_store_page(struct t_store *t, const char *sid, uint64_t from,
    int backward, unsigned max_events, size_t max_bytes, struct t_page *ret);
void t_page_free(struct t_page *p);

/* A whole body in parts, up to 64 MiB; malloced. */
uint8_t *t_store_body(struct t_store *t, uint64_t set, size_t *ret_n);

/* One SQL statement on the file from outside; the first column of the first
 * row, 0 when there is none. Fails the test on error. */
int64_t t_store_sql(struct t_store *t, const char *sql);

#endif
