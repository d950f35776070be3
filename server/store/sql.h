/* SPDX-License-Identifier: Apache-2.0 */
/* Every SQL string of the product but the schema (migrate.c). Each is
 * prepared at most once per connection and reset after use. */
#ifndef SLUICE_STORE_SQL_H
#define SLUICE_STORE_SQL_H

/* clang-format off */
#define STORE_SQL(X) \
X(BEGIN_READ, "BEGIN") \
X(BEGIN, "BEGIN IMMEDIATE") \
X(COMMIT, "COMMIT") \
X(ROLLBACK, "ROLLBACK") \
X(SAVE, "SAVEPOINT job") \
X(SAVE_UNDO, "ROLLBACK TO job") \
X(SAVE_DONE, "RELEASE job") \
/* the log */ \
X(RUN_ADD, "INSERT INTO run(id,n,codec,at_ms,raw_len,sum,chain,body)" \
	" VALUES(?1,?2,?3,?4,?5,?6,?7,?8)") \
X(RUN_FORWARD, "SELECT id,n,codec,at_ms,raw_len,sum,chain,body FROM run" \
	" WHERE id>=?1 AND id<=?2 ORDER BY id") \
X(RUN_BACKWARD, "SELECT id,n,codec,at_ms,raw_len,sum,chain,body FROM run" \
	" WHERE id<=?1 AND id>=?2 ORDER BY id DESC") \
X(RUN_LAST, "SELECT id,chain FROM run WHERE id<=?1 AND id>=?2" \
	" ORDER BY id DESC LIMIT 1") \
X(PIECE_ADD, "INSERT INTO piece(id,sum,body) VALUES(?1,?2,?3)") \
X(PIECE_AT, "SELECT id,sum,body FROM piece WHERE id>?1 AND id<=?2" \
	" ORDER BY id LIMIT 1") \
X(PIECE_NEXT, "SELECT id FROM piece WHERE id>?1 ORDER BY id LIMIT 1") \
X(SET_ADD, "INSERT INTO part_set(pset,sno,seq,length)" \
	" VALUES(?1,?2,?3,?4)") \
X(SET_GET, "SELECT sno,length FROM part_set WHERE pset=?1") \
X(SET_LIVE, "SELECT p.sno,p.length FROM part_set p JOIN session s" \
	" ON s.sno=p.sno AND p.seq>=s.low_seq WHERE p.pset=?1") \
X(SET_LAST, "SELECT max(ifnull((SELECT max(pset) FROM part_set),0)," \
	" ifnull((SELECT max(id)>>31 FROM piece),0))") \
/* sessions */ \
X(SESSION_ADD, "INSERT INTO session(sno,session_id,tenant,vm_id,agent," \
	"open_req,agent_session,generation,state,reason_code,reason," \
	"owner_epoch,created_ms)" \
	" VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)") \
X(HEAD_ADD, "INSERT INTO head(sno,head_seq,bytes,chain,turn,outcome," \
	"updated_ms) VALUES(?1,0,0,zeroblob(32),0,0,?2)") \
X(HEAD_SET, "UPDATE head SET head_seq=?2,bytes=?3,chain=?4,turn=?5," \
	"outcome=?6,updated_ms=?7 WHERE sno=?1") \
X(SESSION_STATE, "UPDATE session SET state=?2,reason_code=?3,reason=?4" \
	" WHERE sno=?1") \
X(SESSION_AGENT, "UPDATE session SET agent_session=?2,generation=?3" \
	" WHERE sno=?1") \
X(SESSION_LOW, "UPDATE session SET low_seq=?2,low_chain=?3 WHERE sno=?1") \
X(LOW_GET, "SELECT low_seq FROM session WHERE sno=?1") \
X(SESSION_LAST, "SELECT ifnull(max(seq),0) FROM sqlite_sequence" \
	" WHERE name='session'") \
X(SESSION_ALL, "SELECT s.sno,session_id,tenant,vm_id,agent,open_req," \
	"agent_session,generation,state,reason_code,reason,owner_epoch," \
	"low_seq,created_ms,head_seq,bytes,chain,turn,outcome,updated_ms" \
	" FROM session s JOIN head h ON h.sno=s.sno ORDER BY s.sno") \
X(PERM_WIPE, "DELETE FROM permission WHERE sno=?1") \
X(TURN_WIPE, "DELETE FROM turn WHERE sno=?1") \
X(HEAD_DEL, "DELETE FROM head WHERE sno=?1") \
X(SESSION_DEL, "DELETE FROM session WHERE sno=?1") \
/* turns and permissions */ \
X(TURN_KEY, "SELECT prompt_hash FROM turn WHERE sno=?1 AND idem_key=?2") \
X(TURN_ADD, "INSERT INTO turn(sno,turn,idem_key,prompt_hash,deadline_ms," \
	"created_ms,first_seq) VALUES(?1,?2,?3,?4,?5,?6,?7)") \
X(TURN_START, "UPDATE turn SET started_ms=?3" \
	" WHERE sno=?1 AND turn=?2 AND outcome=0") \
X(TURN_END, "UPDATE turn SET outcome=?3,reason_code=?4,completed_ms=?5," \
	"last_seq=?6 WHERE sno=?1 AND turn=?2 AND outcome=0") \
X(TURN_FIND, "SELECT turn,idem_key,prompt_hash,outcome,reason_code," \
	"created_ms,started_ms,completed_ms,first_seq,last_seq FROM turn" \
	" WHERE sno=?1 AND idem_key=?2") \
X(TURN_NEWEST, "SELECT turn,idem_key,prompt_hash,outcome,reason_code," \
	"created_ms,started_ms,completed_ms,first_seq,last_seq FROM turn" \
	" WHERE sno=?1 ORDER BY turn DESC LIMIT ?2") \
X(PERM_ADD, "INSERT INTO permission(sno,request,turn,rpc_id,generation," \
	"state,created_ms,expires_ms) VALUES(?1,?2,?3,?4,?5,1,?6,?7)") \
X(PERM_SET, "UPDATE permission SET state=?3,option=coalesce(?4,option)," \
	"answer_key=coalesce(?5,answer_key),changed_ms=?6" \
	" WHERE sno=?1 AND request=?2 AND (?7>>state)&1") \
X(PERM_PENDING, "SELECT request,turn,generation,state,rpc_id,option," \
	"answer_key,created_ms,expires_ms FROM permission" \
	" WHERE sno=?1 AND state=1 ORDER BY request") \
/* VMs */ \
X(VM_PUT, "INSERT INTO vm(vm_id,tenant,state,reason,spec,created_ms)" \
	" VALUES(?1,?2,?3,?4,?5,?6) ON CONFLICT(vm_id) DO UPDATE SET" \
	" tenant=excluded.tenant,state=excluded.state," \
	"reason=excluded.reason,spec=excluded.spec," \
	"created_ms=excluded.created_ms") \
X(VM_DEL, "DELETE FROM vm WHERE vm_id=?1") \
X(VM_ALL, "SELECT vm_id,tenant,state,reason,spec,created_ms FROM vm" \
	" ORDER BY created_ms,vm_id") \
/* giving space back */ \
X(DOOM, "INSERT INTO doomed(sno,last) VALUES(?1,?2) ON CONFLICT(sno)" \
	" DO UPDATE SET last=max(last,excluded.last)") \
X(DOOMED, "SELECT sno,last FROM doomed LIMIT 1") \
X(DOOMED_DONE, "DELETE FROM doomed WHERE sno=?1") \
X(PURGE_RUNS, "DELETE FROM run WHERE id IN (SELECT id FROM run" \
	" WHERE id>=?1 AND id<=?2 ORDER BY id LIMIT ?3)") \
X(PURGE_SET, "SELECT pset FROM part_set WHERE sno=?1 AND seq<=?2 LIMIT 1") \
X(PURGE_PIECES, "DELETE FROM piece WHERE id IN (SELECT id FROM piece" \
	" WHERE id>?1 AND id<=?2 ORDER BY id LIMIT ?3)") \
X(PURGE_SET_DONE, "DELETE FROM part_set WHERE pset=?1")

/* clang-format on */

enum store_sql {
#define X(name, text) SQL_##name,
	STORE_SQL(X)
#undef X
	SQL_COUNT,
};

#endif
