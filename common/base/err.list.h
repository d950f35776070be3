/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of errors: number (= wire number, = public number), name,
 * class, text. Append only; numbers are never reused. Included several times
 * with different SLI_ERR macros; has no include guard on purpose.
 *
 * Classes set the blast radius: NONE; BUG (ours: abort the server); PEER (close
 * that stream or connection); RESOURCE (refuse one thing, may be retried);
 * ENV (disk, kernel, agent: fail the VM, process or session); USER (refuse).
 *
 * 1-16 are gRPC's canonical status codes under their numbers. */
SLI_ERR(0, OK, NONE, "success")
SLI_ERR(1, CANCELED, USER, "the call was canceled")
SLI_ERR(2, UNKNOWN, ENV, "unknown error")
SLI_ERR(3, INVALID_ARGUMENT, USER, "invalid argument")
SLI_ERR(4, DEADLINE_EXCEEDED, USER, "the deadline has passed")
SLI_ERR(5, NOT_FOUND, USER, "not found")
SLI_ERR(6, ALREADY_EXISTS, USER, "already exists")
SLI_ERR(7, PERMISSION_DENIED, USER, "permission denied")
SLI_ERR(8, RESOURCE_EXHAUSTED, RESOURCE, "a limit was reached")
SLI_ERR(9, FAILED_PRECONDITION, USER, "not possible in this state")
SLI_ERR(10, ABORTED, USER, "aborted by a concurrent change")
SLI_ERR(11, OUT_OF_RANGE, USER, "out of range")
SLI_ERR(12, UNIMPLEMENTED, USER, "no such method or feature")
SLI_ERR(13, INTERNAL, BUG, "internal error")
SLI_ERR(14, UNAVAILABLE, RESOURCE, "not available now, try again")
SLI_ERR(15, DATA_LOSS, ENV, "stored data is damaged")
SLI_ERR(16, UNAUTHENTICATED, USER, "not authenticated")
/* connection faults: the connection that broke the rule is closed */
SLI_ERR(32, PROTOCOL, PEER, "the peer broke the protocol")
SLI_ERR(33, FRAME_SIZE, PEER, "frame or message longer than allowed")
SLI_ERR(34, FLOW, PEER, "the peer sent more than its credit")
SLI_ERR(35, DESYNC, PEER, "data at the wrong offset")
SLI_ERR(36, STREAM_ID, PEER, "stream id reused or out of order")
SLI_ERR(37, CALM, PEER, "the peer sends too much too fast")
SLI_ERR(38, VERSION, PEER, "no common protocol version")
SLI_ERR(39, HANDSHAKE, PEER, "handshake failed")
SLI_ERR(40, STALLED, PEER, "no progress for too long")
SLI_ERR(41, CLOSED, ENV, "connection closed")
SLI_ERR(42, MALFORMED, PEER, "message is not valid protobuf")
SLI_ERR(43, INTERRUPTED, ENV, "connection lost; the work goes on")
/* local */
SLI_ERR(64, NOMEM, RESOURCE, "out of memory")
SLI_ERR(65, AGAIN, RESOURCE, "not ready, try again")
SLI_ERR(66, BUSY, USER, "called from inside a callback")
SLI_ERR(67, SYS, ENV, "system call failed")
SLI_ERR(68, CONFIG, USER, "configuration error")
/* product */
SLI_ERR(96, SESSION_BUSY, USER, "a turn is running in this session")
SLI_ERR(97, HOST_CAPACITY, RESOURCE, "this host has no room for the VM")
SLI_ERR(98, STORAGE_FULL, RESOURCE, "the disk is full")
SLI_ERR(99, STORE, ENV, "the history store failed")
SLI_ERR(100, AGENT, ENV, "the agent failed")
SLI_ERR(101, AGENT_EXITED, ENV, "the agent exited")
SLI_ERR(102, SANDBOX, ENV, "the sandbox could not be made")
SLI_ERR(103, KEY_CONFLICT, USER, "the key was used with other content")
SLI_ERR(104, DRAINING, RESOURCE, "the server is shutting down")
