/* SPDX-License-Identifier: Apache-2.0 */
/* The table of methods, from the generated list and the handlers of service/.
 * Pure data; see call.h. */
#include "conn/call.h"

#include "sluice/v1/core.pb-c.h"
#include "sluice/v1/processes.pb-c.h"
#include "sluice/v1/server.pb-c.h"
#include "sluice/v1/sessions.pb-c.h"
#include "sluice/v1/vms.pb-c.h"

#define METHOD_ROW(n, service, name_, cs, ss, role_, ms, req, rsp) \
	[n] = {.id = (n),                                          \
	    .name = #service "/" #name_,                           \
	    .client_streams = (cs),                                \
	    .server_streams = (ss),                                \
	    .role = SLI_ROLE_##role_,                              \
	    .timeout_ms = (ms),                                    \
	    .request = &sluice__v1__##req##__descriptor},

#define SLI_METHOD(...) METHOD_ROW(__VA_ARGS__)
static const struct method table[] = {
#include "methods.list.h"
};
#undef SLI_METHOD

enum sli_err
methods_new(const struct svc_method *handlers, struct method **ret_table,
    uint32_t *ret_n, struct sli_errinfo *ei)
{
	struct method *own = sli_memdup(table, sizeof(table));

	if (!own)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "conn.methods", "no memory");
	for (const struct svc_method *h = handlers; h->id != 0; h++) {
		if (h->id >= SLI_ARRAY_LEN(table) || own[h->id].id == 0) {
			sli_free(own);
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "conn.methods", "no method has number %u", h->id);
		}
		own[h->id].handle = h->handle;
	}
	*ret_table = own;
	*ret_n = SLI_ARRAY_LEN(table);
	return SLI_OK;
}
