/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: the session, set and job objects, the
 * queue, and who may touch which field. Nobody outside the room includes it,
 * but tests of the room.
 *
 * Two sides. LOOP fields belong to the loop thread. WRITER fields belong to
 * the writer thread from the moment the first job of the object is queued.
 * An object passes between them by the queue's mutex and by posts only. */
#ifndef SLUICE_STORE_INT_H
#define SLUICE_STORE_INT_H

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "crypto/hash.h"
#include "store/store.h"

#include <pthread.h>
#include <stdatomic.h>

/* id = (sno << SEQ_BITS) | last seq; piece id = (set << OFF_BITS) | end. */
#define STORE_SEQ_BITS 36
#define STORE_SEQ_MAX  ((UINT64_C(1) << STORE_SEQ_BITS) - 1)
#define STORE_SNO_MAX  ((UINT64_C(1) << 27) - 1)
#define STORE_OFF_BITS 31
#define STORE_OFF_MAX  ((UINT64_C(1) << STORE_OFF_BITS) - 1)
#define STORE_SET_MAX  ((UINT64_C(1) << 32) - 1)

/* A run row, a piece of a body, a turn of one session within a batch, a
 * batch: small rows keep pages small, a bounded batch keeps commits short. */
#define STORE_RUN_MAX   SLI_EVENT_INLINE_MAX
#define STORE_PIECE_MAX (64u << 10)
#define STORE_QUANTUM   (64u << 10)
#define STORE_BATCH_MAX (8u << 20)
/* Defaults of the configuration. */
#define STORE_TAIL_BYTES (256u << 10)
#define STORE_PAGE_BYTES (64u << 10)

static inline int64_t
store_key(uint64_t sno, uint64_t seq)
{
	return (int64_t)(sno << STORE_SEQ_BITS | seq);
}

static inline int64_t
store_piece_key(uint64_t set, uint64_t end)
{
	return (int64_t)(set << STORE_OFF_BITS | end);
}

struct store_job;
struct store_db;

/* What the writer knows of a session; `now` runs ahead of `kept` inside a
 * transaction. */
struct store_wstate {
	uint64_t head, low, bytes, turn;
	int outcome;
	int exists;
	uint8_t chain[SLI_HASH_BYTES];
};

/* Committed events in memory: jobs in seq order, a ring of pointers. */
struct store_tail {
	struct store_job **v;
	unsigned first, n, cap; /* cap is a power of two or 0 */
	size_t bytes;
};

struct store_session {
	char id[SLI_ID_MAX];
	uint64_t sno;
	/* LOOP */
	unsigned refs; /* map, jobs, reads, cursors */
	int dead;      /* deleted, or its row was never committed */
	int deleting;
	int pressed;
	uint64_t head, low, bytes, held;
	uint8_t chain[SLI_HASH_BYTES];
	struct store_tail tail;
	struct sli_list lru;     /* of sessions with a tail */
	struct sli_list cursors; /* struct store_cursor.node */
	struct sli_list sets;    /* struct store_set.node */
	/* WRITER */
	struct store_wstate now, kept;
	struct store_job *w_first, *w_last; /* waiting, in order */
	struct store_job *b_first, *b_last; /* in the batch being made */
	struct sli_list w_node;             /* of sessions that wait */
	struct sli_list b_node;             /* of the batch's sessions */
};

/* A body in parts that is still arriving. */
struct store_set {
	uint64_t id;
	struct store_session *s;
	/* LOOP */
	unsigned refs; /* map, jobs */
	int gone;      /* named or dropped */
	int lost;      /* bytes of it never reached the queue */
	struct sli_list node;
	/* WRITER */
	uint64_t len;
	int failed; /* an append was lost; never to be named */
	struct sli_hash hash;
};

enum store_op {
	STORE_OP_VM_PUT = 1,
	STORE_OP_VM_DEL,
	STORE_OP_NEW,
	STORE_OP_DEL,
	STORE_OP_COMMIT,
	STORE_OP_TRIM,
	STORE_OP_PART,
	STORE_OP_DROP,
};

/* docs/STATES.md, "Store job". */
enum store_job_state {
	STORE_JOB_NEW,
	STORE_JOB_QUEUED,
	STORE_JOB_TAKEN,
	STORE_JOB_COMMITTED,
	STORE_JOB_FAILED,
	STORE_JOB_ANSWERED,
	STORE_JOB_STATES,
};

/* A record that changes rows or names a set. */
struct store_rec {
	struct sli_change ch;
	int64_t at_ms;
	int has_event;
	uint32_t ev_ix;  /* of its event among those of the job */
	uint64_t length; /* of its body */
	uint64_t parts;  /* number of the set, as asked */
	struct store_set *set;
};

/* One asked-for change, all bytes in the same allocation. After its commit
 * it serves as a piece of the tail. */
struct store_job {
	struct sli_post post; /* for answers outside of a batch */
	struct store *st;
	struct store_job *next;
	struct store_session *s;
	enum store_op op;
	enum store_job_state state;
	unsigned flags;
	enum sli_err code;
	uint64_t first_seq;
	uint64_t low; /* TRIM */
	size_t cost;  /* of the allocation: what `held` counts */
	int in_tail;  /* LOOP: the tail frees it */
	uint32_t nev, nrec;
	uint8_t *frames; /* or the bytes of a PART */
	size_t frames_len;
	struct store_rec *rec;

	union {
		struct store_vm_row *vm;
		struct store_session_row *session;
	} row;
	struct store_set *set;
	store_done_fn *done;
	void *ctx;
};

/* Loop -> writer. */
struct store_queue {
	pthread_mutex_t mu;
	pthread_cond_t cv;
	struct store_job *first, *last;
	uint64_t n, bytes, barriers;
	int64_t oldest_ns;
	int stop;
	int waiting; /* 1 = for anything, 2 = lingering */
};

struct store_read; /* reader.h */

/* Loop -> readers. */
struct store_read_queue {
	pthread_mutex_t mu;
	pthread_cond_t cv;
	struct store_read *first, *last;
	int stop;
};

/* What one commit did to a session. */
struct store_result {
	struct store_session *s;
	struct store_wstate kept;
	int moved; /* loop: the head did */
};

/* Writer -> loop: one transaction, and its answers. */
struct store_batch {
	struct sli_post post;
	struct store *st;
	struct store_job *first, *last;
	uint64_t events, bytes;
	int committed;
	unsigned nres;
	struct store_result res[];
};

struct store_writer {
	struct store *st;
	pthread_t thread;
	struct store_db *db;
	struct store_session vms; /* order of the VM rows; sno 0 */
	struct sli_list waiting;  /* store_session.w_node */
	struct sli_list batch;    /* store_session.b_node */
	unsigned nbatch;
	struct store_run *run;
	uint8_t *piece;  /* STORE_PIECE_MAX */
	int64_t wall_ms; /* of the transaction */
	unsigned wal_pages;
	int64_t wal_try_ns, ballast_try_ns, purge_try_ns;
	int purge;     /* something is doomed */
	int broken;    /* fail-stop: touch nothing any more */
	int ballastfd; /* -1 = given up */
	struct sli_post fatal_post;
	struct sli_errinfo fatal;
};

struct store_reader {
	struct store *st;
	pthread_t thread;
	struct store_db *db;
	int started;
};

#define STORE_READERS_MAX 4

struct store {
	struct store_cfg cfg;
	int dirfd, lockfd;
	char *path;
	int opened; /* store_open() has succeeded */
	int manual; /* tests: no threads, store_step_*() does the work */
	/* LOOP */
	struct sli_map *sessions; /* id -> struct store_session */
	struct sli_map *sets;     /* 8 bytes of id -> struct store_set */
	uint64_t last_sno, last_set;
	uint64_t held, tail_bytes, outstanding;
	int pressed, closing, fataled;
	struct sli_list lru;
	struct store_stats stats;
	struct store_db *front; /* for the blocking loads at start */
	/* between */
	struct store_queue q;
	struct store_read_queue rq;
	atomic_int full, broken;
	atomic_uint_fast64_t damaged, wal_bytes;
	/* other threads */
	struct store_writer w;
	int writer_started;
	struct store_reader r[STORE_READERS_MAX];
};

/* --- session.c: loop ------------------------------------------------------*/
struct store_session *store_session_find(
    const struct store *st, const char *sid);
SLI_MUST struct store_session *store_session_add(
    struct store *st, const char *sid, uint64_t sno);
struct store_session *store_session_ref(struct store_session *s);
void store_session_unref(struct store *st, struct store_session *s);
void store_session_forget(struct store *st, struct store_session *s);
/* After its head moved; or, all: after it died. */
void store_session_wake(struct store_session *s, int all);
struct store_cursor;
void store_cursor_wake(struct store_cursor *c, int all); /* cursor.c */

/* --- job.c, queue.c -------------------------------------------------------*/
void store_job_set(struct store_job *j, enum store_job_state to);
SLI_MUST struct store_job *store_job_pack(
    const struct sli_record *recs, unsigned n, size_t extra, uint8_t **ret_p);
/* Unless the tail or the answer still needs it. */
void store_job_free(struct store *st, struct store_job *j);
void store_job_refuse(struct store_job *j, enum sli_err code);
SLI_MUST enum sli_err store_queue_init(struct store_queue *q);
void store_queue_fini(struct store_queue *q);
void store_queue_push(struct store_queue *q, struct store_job *j);
/* Blocks; NULL when stopped and empty, or when idle work is due. */
struct store_job *store_queue_take(
    struct store_queue *q, unsigned linger_ms, int64_t idle_ns, int *ret_stop);
void store_queue_stop(struct store_queue *q);

/* --- deliver.c: loop ------------------------------------------------------*/
void store_submit(struct store *st, struct store_job *j,
    struct store_session *s, store_done_fn *done, void *ctx);
void store_deliver(struct sli_post *p);
void store_fatal(struct store *st, const struct sli_errinfo *ei);

/* --- parts.c: loop --------------------------------------------------------*/
struct store_set *store_set_find(struct store *st, uint64_t id);
void store_set_close(struct store *st, struct store_set *t);
void store_set_unref(struct store *st, struct store_set *t);

/* --- tail.c: loop ---------------------------------------------------------*/
/* May take j, and sets in_tail if it does. */
void store_tail_add(
    struct store *st, struct store_session *s, struct store_job *j);
void store_tail_drop(struct store *st, struct store_session *s, uint64_t below);
uint64_t store_tail_low(const struct store_session *s);
int store_tail_walk(const struct store_session *s, uint64_t from,
    int (*fn)(void *ctx, const struct sli_event *ev), void *ctx);

/* --- writer side ----------------------------------------------------------*/
/* writer.c. The database is open; nothing is queued yet. */
SLI_MUST enum sli_err store_writer_init(
    struct store *st, struct sli_errinfo *ei);
void store_writer_fini(struct store *st);
void *store_writer_main(void *arg);
/* Commit and answer everything in list, in batches. */
void store_writer_turn(struct store_writer *w, struct store_job *list);
/* Fail-stop: the loop is told once, nothing is touched any more. */
void store_writer_broke(struct store_writer *w, int rc, const char *where);

/* Steps inside a transaction. Results that end it: STORAGE_FULL, NOMEM,
 * UNAVAILABLE, STORE. What ends one job only is left in j->code. */
SLI_MUST enum sli_err store_apply_session(
    struct store_writer *w, struct store_session *s);
/* rows.c: any result; those of a single job undo that job. */
SLI_MUST enum sli_err store_rows_new(
    struct store_writer *w, const struct store_job *j);
SLI_MUST enum sli_err store_rows_change(struct store_writer *w,
    struct store_session *s, const struct store_rec *r, uint64_t seq,
    uint64_t *io_request);
SLI_MUST enum sli_err store_rows_del(
    struct store_writer *w, struct store_session *s);
SLI_MUST enum sli_err store_rows_trim(
    struct store_writer *w, struct store_session *s, struct store_job *j);
SLI_MUST enum sli_err store_rows_vm(
    struct store_writer *w, const struct store_job *j);
/* parts.c. Appends j and what follows it for the same set. */
SLI_MUST enum sli_err store_parts_append(
    struct store_writer *w, struct store_job *j, struct store_job **ret_next);
SLI_MUST enum sli_err store_parts_name(
    struct store_writer *w, const struct store_rec *r, uint64_t seq);
SLI_MUST enum sli_err store_parts_drop(
    struct store_writer *w, const struct store_set *set);
/* Dooms what no event names. */
SLI_MUST enum sli_err store_parts_sweep(struct store_writer *w);

/* upkeep.c, between transactions. One bounded step of giving space back;
 * clears w->purge at the end. */
void store_purge_step(struct store_writer *w);
void store_ballast_make(struct store_writer *w);
void store_ballast_release(struct store_writer *w);
void store_checkpoint(struct store_writer *w);
/* When the writer should wake although nothing is queued; 0 = never. */
int64_t store_upkeep_due(const struct store_writer *w);

/* --- lock.c ---------------------------------------------------------------*/
SLI_MUST enum sli_err store_lock(
    int dirfd, const char *dir, int *ret_fd, struct sli_errinfo *ei);

/* --- tests of this room ---------------------------------------------------*/
SLI_MUST enum sli_err store_open_manual(
    const struct store_cfg *cfg, struct store **ret, struct sli_errinfo *ei);
/* Take and commit all that is queued; 0 = there was nothing. */
int store_step_writer(struct store *st);
/* Do one read that waits; 0 = there was none. */
int store_step_reader(struct store *st);
/* Give back doomed space until none is left. */
void store_step_purge(struct store *st);

#endif
