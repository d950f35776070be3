/* SPDX-License-Identifier: Apache-2.0 */
/* ExecOutput{data} written by hand: it is the message of bulk output, and
 * protobuf-c would move its bytes once more to make room for their length.
 * Other messages are packed by protobuf-c. */
#ifndef SLUICE_SERVICE_EXEC_DATA_H
#define SLUICE_SERVICE_EXEC_DATA_H

#include "vm/vm.h"

/* Most that stands around the bytes. */
#define EXEC_DATA_HEAD 32u

/* Encode a VM_OUT_DATA to dst, which has out->data.n + EXEC_DATA_HEAD bytes;
 * returns the length. The bytes are copied once. */
size_t exec_data_put(uint8_t *dst, const struct vm_out *out);

#endif
