# SPDX-License-Identifier: Apache-2.0
# One non-recursive Makefile; everything lands under build/$(V)/.
#   make [V=debug|asan|tsan|rel|cov]   build
#   make test | lint | demo | fuzz | bench | test-agents | test-long | mutants
#   make deps                          install what the build needs (apt)
# Sources are found by wildcard; a program whose room is still empty is left
# out. VERBOSE=1 shows the commands.
V        ?= debug
VERSION  := 0.1.0
B        := build/$(V)
VARIANTS := debug asan tsan rel cov fuzz
ifeq ($(filter $(V),$(VARIANTS)),)
$(error V=$(V) is none of: $(VARIANTS))
endif
ifeq ($(origin CC),default)
CC       := $(if $(filter fuzz,$(V)),clang,gcc)
endif
Q        := $(if $(VERBOSE),,@)
PREFIX   ?= /usr/local
SHELL    := /bin/bash
.DEFAULT_GOAL := all

# --- flags ----------------------------------------------------------------
CSTD      := -std=c17 -D_GNU_SOURCE
OPT.debug := -O1 -g3 -fno-omit-frame-pointer -Werror
OPT.asan  := -O1 -g3 -fno-omit-frame-pointer -fsanitize=address,undefined \
             -fno-sanitize-recover=all -Werror
OPT.tsan  := -O1 -g3 -fsanitize=thread -Werror
OPT.fuzz  := -O1 -g -fno-omit-frame-pointer \
             -fsanitize=fuzzer-no-link,address,undefined \
             -fno-sanitize-recover=all
OPT.cov   := -O0 -g --coverage
OPT.rel   := -O2 -g -D_FORTIFY_SOURCE=3 -fstack-protector-strong \
             -fstack-clash-protection -fcf-protection
WARN      := -Wall -Wextra -Wpedantic -Wshadow -Wconversion \
             -Wsign-conversion -Wcast-qual -Wcast-align -Wpointer-arith \
             -Wwrite-strings -Wundef -Wvla -Walloca -Wformat=2 \
             -Wnull-dereference -Wstrict-prototypes -Wmissing-prototypes \
             -Wold-style-definition -Wnested-externs -Wredundant-decls \
             -Wimplicit-fallthrough -Wswitch-enum -Wdouble-promotion \
             -Wbad-function-cast -Wdate-time -fno-common -Wno-missing-braces
WARN.gcc  := -Wlogical-op -Wduplicated-cond -Wduplicated-branches \
             -Wjump-misses-init -Wformat-overflow=2 -Wformat-truncation=2 \
             -Wformat-signedness -Warith-conversion -Walloc-zero \
             -Wtrampolines -Wstringop-overflow=4
# protobuf-c's INIT macros cast const away and libseccomp's leave fields out;
# gcc, which does not look into them, checks our own code for both.
WARN.clang := -Wno-cast-qual -Wno-missing-field-initializers -Wcomma -Wunreachable-code -Wassign-enum \
             -Wconditional-uninitialized -Wextra-semi -Wthread-safety
CCKIND    := $(if $(findstring clang,$(shell $(CC) --version 2>&1)),clang,gcc)
INC       := -Icommon -Iserver -Iclient/include -isystem $(B)/proto
DEF       := -DSLUICE_VERSION='"$(VERSION)"'
ALLC      := $(CSTD) $(OPT.$(V)) -fPIC -fvisibility=hidden $(INC) $(DEF) \
             -pthread -MMD -MP $(CFLAGS)
WARNS     := $(WARN) $(WARN.$(CCKIND))
LD        := $(CC) $(filter-out -Werror,$(OPT.$(V))) -pthread $(LDFLAGS) \
             -Wl,--as-needed,-z,relro,-z,now
LIBS      := -lprotobuf-c -lsodium -lsqlite3 -ljansson -lnng
LIBS_CLI  := -lprotobuf-c -lsodium
LIBS_PRIV := -lseccomp -lcap
# Programs that run inside a VM: static, never sanitized.
PLAINC    := $(CSTD) -O2 -g -Werror -ffunction-sections -fdata-sections \
             -Icommon -Iserver $(DEF) -MMD -MP
MUSLC     := musl-gcc -static -Os -g -Werror $(CSTD) -Iserver $(DEF) -MMD -MP \
             -idirafter /usr/include \
             -idirafter /usr/include/$(shell uname -m)-linux-gnu

# --- sources --------------------------------------------------------------
PROTO    := $(sort $(wildcard proto/sluice/v1/*.proto))
PROTO_C  := $(filter-out %/options.proto,$(PROTO))
PBC      := $(PROTO_C:proto/%.proto=$(B)/proto/%.pb-c.c)
PBH      := $(PBC:.c=.h)
GEN      := $(PBH) $(B)/proto/methods.list.h
COMMON   := $(wildcard common/*/*.c)
SERVER   := $(strip $(foreach r,loop conn service vm acp store,\
             $(wildcard server/$(r)/*.c)) $(wildcard server/main/helpers*.c))
MAIN     := $(filter-out server/main/helpers%,$(wildcard server/main/*.c))
SPAWNER  := $(wildcard server/spawner/*.c)
OPENER   := $(wildcard server/opener/*.c)
PID1     := $(wildcard server/guest/pid1*.c)
ASHELL   := $(wildcard server/guest/agent_*.c)
CLIENT   := $(wildcard client/*.c)
TOOLS    := $(wildcard tools/*.c)
TLIB     := $(wildcard tests/lib/*.c)
TDIRS    := unit golden sim fault e2e sandbox field
TESTS    := $(strip $(foreach d,$(TDIRS),$(wildcard tests/$(d)/test_*.c)))
BENCH_C  := $(wildcard tests/bench/bench_*.c)
FUZZ     := $(wildcard tests/fuzz/fuzz_*.c)
TGUEST   := $(wildcard tests/tools/guest_*.c)
TTOOLS   := $(filter-out $(TGUEST),$(wildcard tests/tools/*.c))
# A program exists once some file of its room defines main.
MAIN_RE  := '^main[(]' -e '^int main[(]'
has_main  = $(if $(1),$(shell grep -l -e $(MAIN_RE) $(1) 2>/dev/null))
obj       = $(patsubst %.c,$(B)/%.o,$(1))
plain     = $(patsubst %.c,$(B)/plain/%.o,$(1))

BIN       := $(B)/bin
LIBX      := $(B)/libexec/sluice
LCOMMON   := $(B)/libcommon.a
LSERVER   := $(B)/libserver.a
SO        := $(B)/lib/libsluice.so.0
LCLIENT   := $(B)/lib/libsluice.a
PROGRAMS  := \
  $(if $(call has_main,$(MAIN)),$(BIN)/sluiced) \
  $(if $(call has_main,$(TOOLS)),$(BIN)/sluice) \
  $(if $(CLIENT),$(SO) $(LCLIENT)) \
  $(if $(call has_main,$(SPAWNER)),$(LIBX)/sluice-spawner) \
  $(if $(call has_main,$(OPENER)),$(LIBX)/sluice-opener) \
  $(if $(call has_main,$(PID1)),$(LIBX)/sluice-pid1) \
  $(if $(call has_main,$(ASHELL)),$(LIBX)/guest/sluice-agent-shell)
T.tests   := $(TESTS:tests/%.c=$(B)/t/%)
T.replay  := $(FUZZ:tests/fuzz/%.c=$(B)/t/fuzz/replay_%)
T.fuzz    := $(FUZZ:tests/fuzz/%.c=$(B)/t/fuzz/%)
T.bench   := $(BENCH_C:tests/%.c=$(B)/t/%)
FAKE     := $(wildcard tests/fake/*.c)
# The gRPC peer of bench_rpc is built where gRPC C++ is installed.
ifneq ($(filter bench bench-report benches %/grpc_echo,$(MAKECMDGOALS)),)
HAVE_GRPC := $(shell pkg-config --exists grpc++ protobuf 2>/dev/null && \
               command -v protoc grpc_cpp_plugin)
T.grpc    := $(if $(HAVE_GRPC),$(B)/t/bench/grpc_echo)
endif
T.tools   := $(TTOOLS:tests/%.c=$(B)/t/%) $(TGUEST:tests/%.c=$(B)/t/%) \
             $(if $(FAKE),$(B)/t/fake-agent)

.PHONY: all programs tests clean
all: programs $(LCOMMON) $(if $(SERVER),$(LSERVER))
programs: $(PROGRAMS)
tests: all $(T.tests) $(T.replay) $(T.tools)

# --- generated ------------------------------------------------------------
# protoc-c never sees options.proto: our options are cut out first; the method
# table is made from the .proto files by awk.
$(B)/proto/.stamp: $(PROTO) tools/dev/methods.awk
	@echo "  PROTO $(B)/proto"
	$(Q)rm -rf $(B)/proto $(B)/proto-src
	$(Q)mkdir -p $(B)/proto $(B)/proto-src/sluice/v1
	$(Q)for p in $(PROTO_C); do \
		sed -e '/^import "sluice\/v1\/options.proto";/d' \
		    -e 's/option *([^)]*) *= *[^;]*;//g' $$p \
		    > $(B)/proto-src/$${p#proto/} || exit 1; \
	done
	$(Q)protoc-c --c_out=$(B)/proto --proto_path=$(B)/proto-src \
	    $(PROTO_C:proto/%=$(B)/proto-src/%)
	$(Q)awk -f tools/dev/methods.awk $(PROTO_C) > $(B)/proto/methods.list.h
	$(Q)touch $@
$(PBC) $(GEN): $(B)/proto/.stamp ;

# Objects are rebuilt when their flags change, not when the Makefile does.
$(B)/.flags: FORCE
	$(Q)mkdir -p $(B); printf '%s\n' '$(subst ','\'',$(CC) $(ALLC) $(WARNS) \
	    $(PLAINC) $(MUSLC))' > $@.new; \
	    cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:

# --- objects --------------------------------------------------------------
$(B)/proto/%.o: $(B)/proto/%.c $(B)/.flags
	$(Q)$(CC) $(ALLC) -w -c $< -o $@
$(B)/plain/%.o: %.c $(B)/.flags
	@echo "  CC    $< (plain)"
	$(Q)mkdir -p $(@D) && $(CC) $(PLAINC) $(WARNS) -c $< -o $@
$(B)/%.o: %.c $(B)/.flags | $(GEN)
	@echo "  CC    $<"
	$(Q)mkdir -p $(@D) && $(CC) $(ALLC) $(WARNS) $(EXTRA) -c $< -o $@
$(call obj,$(CLIENT)): EXTRA := -DSLUICE_BUILD
$(call obj,$(TESTS) $(TLIB) $(BENCH_C) $(FUZZ) $(TTOOLS)) \
$(B)/tests/fuzz/replay_main.o: \
    EXTRA := -Itests/lib -DSLUICE_BUILD_DIR='"$(CURDIR)/$(B)"' \
             -DSLUICE_SRC_DIR='"$(CURDIR)"'

ar = @echo "  AR    $@"; mkdir -p $(@D); rm -f $@; $(AR) rcs $@ $^
$(LCOMMON): $(call obj,$(COMMON)) $(PBC:.c=.o) ; $(ar)
$(LSERVER): $(call obj,$(SERVER)) ; $(ar)
$(B)/libspawner.a: $(call obj,$(SPAWNER)) ; $(ar)
$(B)/libopener.a: $(call obj,$(OPENER)) ; $(ar)
$(B)/libtest.a: $(call obj,$(TLIB)) ; $(ar)
$(B)/plain/libbase.a: $(call plain,$(wildcard common/base/*.c \
    common/json/*.c)) ; $(ar)
# For embedders who link statically: the client and the rooms below it.
$(LCLIENT): $(call obj,$(CLIENT) $(foreach r,base wire crypto,\
    $(wildcard common/$(r)/*.c)) $(filter-out %_nng.c,\
    $(wildcard common/link/*.c))) $(PBC:.c=.o) ; $(ar)

# --- programs -------------------------------------------------------------
link = @echo "  LD    $@"; mkdir -p $(@D); $(if $(VERBOSE),set -x;) $(LD)
$(BIN)/sluiced: $(call obj,$(MAIN)) $(LSERVER) $(LCOMMON)
	$(link) -pie $^ $(LIBS) -o $@
$(LIBX)/sluice-spawner: $(call obj,$(SPAWNER)) $(LCOMMON)
	$(link) -pie $^ $(LIBS) $(LIBS_PRIV) -o $@
$(LIBX)/sluice-opener: $(call obj,$(OPENER)) $(LCOMMON)
	$(link) -pie $^ $(LIBS) $(LIBS_PRIV) -o $@
$(LIBX)/sluice-pid1: $(PID1) $(B)/.flags
	@echo "  MUSL  $@"; mkdir -p $(@D)
	$(Q)$(MUSLC) -Wall -Wextra -Wshadow -Wconversion -MF $@.d $(PID1) -s -o $@
$(LIBX)/guest/sluice-agent-shell: $(call plain,$(ASHELL)) $(B)/plain/libbase.a
	@echo "  LD    $@"; mkdir -p $(@D)
	$(Q)$(CC) -static -Wl,--gc-sections $^ -ljansson -o $@
$(SO): $(call obj,$(CLIENT)) $(LCOMMON) client/libsluice.map
	$(link) -shared -Wl,-soname,libsluice.so.0,-z,defs \
	    -Wl,--version-script=client/libsluice.map \
	    $(filter %.o %.a,$^) $(LIBS_CLI) -o $@
	$(Q)ln -sf libsluice.so.0 $(B)/lib/libsluice.so
$(BIN)/sluice: $(call obj,$(TOOLS)) $(SO)
	$(link) -pie $(filter %.o,$^) -L$(B)/lib -lsluice \
	    -Wl,-rpath,'$$ORIGIN/../lib' -o $@

# --- tests ----------------------------------------------------------------
T.libs := $(if $(TLIB),$(B)/libtest.a) $(if $(SERVER),$(LSERVER)) \
          $(if $(SPAWNER),$(B)/libspawner.a) $(if $(OPENER),$(B)/libopener.a) \
          $(if $(CLIENT),$(LCLIENT)) $(LCOMMON)
T.link  = $(link) -pie $< -Wl,--start-group $(T.libs) -Wl,--end-group \
          $(LIBS) $(LIBS_PRIV) -lcmocka -o $@
$(T.tests) $(T.bench) $(TTOOLS:tests/%.c=$(B)/t/%): \
$(B)/t/%: $(B)/tests/%.o $(T.libs)
	$(T.link)
$(TGUEST:tests/%.c=$(B)/t/%): \
$(B)/t/%: $(B)/plain/tests/%.o $(B)/plain/libbase.a
	@echo "  LD    $@"; mkdir -p $(@D)
	$(Q)$(CC) -static -Wl,--gc-sections $^ -o $@
$(B)/t/fake-agent: $(call plain,$(FAKE))
	@echo "  LD    $@"; mkdir -p $(@D)
	$(Q)$(CC) -static $^ -o $@
$(B)/t/fuzz/replay_%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/replay_main.o $(T.libs)
	$(link) -pie $(filter %.o,$^) -Wl,--start-group $(T.libs) \
	    -Wl,--end-group $(LIBS) $(LIBS_PRIV) -o $@

$(T.fuzz): $(B)/t/fuzz/%: $(B)/tests/fuzz/%.o $(T.libs)
	$(link) -fsanitize=fuzzer $< -Wl,--start-group $(T.libs) \
	    -Wl,--end-group $(LIBS) $(LIBS_PRIV) -o $@

# --- what people type -----------------------------------------------------
# These start make again where something may have to be installed first.
.PHONY: benches fuzzers deps test test-long test-agents bench bench-report fuzz \
        mutants demo lint print-cflags print-warnings format docs proto-lock \
        install install-files
benches: all $(T.bench) $(T.grpc) $(T.tools)
fuzzers: $(T.fuzz)
JOBS     ?= $(shell nproc)
submake   = $(MAKE) --no-print-directory \
            $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))
need      = tools/dev/deps.sh check || tools/dev/deps.sh install
script    = @test -x $(1) || { echo "$(1) is not there"; exit 1; }; $(1)

deps:
	@tools/dev/deps.sh install all

test:
	@$(need)
	@tools/dev/deps.sh userns
	@$(submake) tests
	@V=$(V) tests/run $(T)

test-long:
	@$(need)
	@$(submake) V=rel tests
	@V=rel LONG=1 tests/run $(T)

demo:
	@$(need)
	@tools/dev/deps.sh userns
	@test -x $(BIN)/sluiced || echo "Building; it takes a minute or two."
	@$(submake) all >/dev/null
	$(call script,tests/demo.sh)

bench:
	@$(need)
	@$(submake) V=rel benches
	$(call script,tests/bench/run)

bench-report:
	@$(need)
	@$(submake) V=rel benches
	$(call script,tests/bench/report)

test-agents:
	@$(need)
	@$(submake) tests
	$(call script,tests/agents/run)

mutants:
	@$(need)
	$(call script,tests/mutants/run)

# FUZZ_TIME seconds for each target; findings stay in build/fuzz/.
FUZZ_TIME ?= 60
fuzz:
	@$(need)
	@$(submake) V=fuzz fuzzers
	@for f in $(FUZZ:tests/fuzz/%.c=%); do \
		echo "fuzz $$f $(FUZZ_TIME) s"; \
		mkdir -p build/fuzz/corpus/$$f tests/fuzz/corpus/$$f; \
		build/fuzz/t/fuzz/$$f -max_total_time=$(FUZZ_TIME) \
		    -print_final_stats=1 -verbosity=0 -timeout=10 \
		    -rss_limit_mb=2048 -artifact_prefix=build/fuzz/$$f- \
		    build/fuzz/corpus/$$f tests/fuzz/corpus/$$f || exit 1; \
	done

lint:
	@tools/dev/lint.sh $(CHECK)

print-cflags:
	@printf '%s\n' '$(subst ','\'',$(CSTD) -O1 $(INC) -DSLUICE_VERSION="$(VERSION)") -pthread'

print-warnings:
	@printf '%s\n' '$(WARNS)'

format:
	clang-format -i $(shell git ls-files '*.c' '*.h')

docs:
	@tools/dev/docs.sh

proto-lock:
	awk -f tools/dev/proto_lock.awk $(PROTO_C) > proto/lock.txt

DEST      = $(DESTDIR)$(PREFIX)
install: programs
	@$(MAKE) --no-print-directory install-files
# What is built, as it is; builds nothing.
install-files:
	install -d $(DEST)/bin $(DEST)/lib $(DEST)/include \
	    $(DEST)/libexec/sluice/guest
	install -m 755 $(BIN)/sluiced $(BIN)/sluice $(DEST)/bin/
	install -m 755 $(LIBX)/sluice-spawner $(LIBX)/sluice-opener \
	    $(LIBX)/sluice-pid1 $(DEST)/libexec/sluice/
	install -m 755 $(LIBX)/guest/* $(DEST)/libexec/sluice/guest/
	install -m 644 $(SO) $(LCLIENT) $(DEST)/lib/
	ln -sf libsluice.so.0 $(DEST)/lib/libsluice.so
	install -d $(DEST)/include/sluice $(DEST)/lib/pkgconfig
	install -m 644 client/include/sluice.h $(DEST)/include/
	install -m 644 client/include/sluice/*.h $(DEST)/include/sluice/
	sed 's,@PREFIX@,$(PREFIX),; s,@VERSION@,$(VERSION),' \
	    client/libsluice.pc.in > $(DEST)/lib/pkgconfig/libsluice.pc
	for f in docs/man/*.[1-8]; do \
		install -D -m 644 $$f $(DEST)/share/man/man$${f##*.}/$${f##*/} || \
		    exit 1; \
	done

$(B)/grpc/.stamp: $(PROTO)
	@echo "  PROTO $(B)/grpc"
	$(Q)rm -rf $(B)/grpc && mkdir -p $(B)/grpc
	$(Q)protoc -Iproto --cpp_out=$(B)/grpc --grpc_out=$(B)/grpc \
	    --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) \
	    sluice/v1/server.proto sluice/v1/options.proto
	$(Q)touch $@
$(B)/t/bench/grpc_echo: tests/bench/grpc_echo.cc $(B)/grpc/.stamp
	@echo "  CXX   $@"; mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 -O2 -I$(B)/grpc $< \
	    $(B)/grpc/sluice/v1/*.cc \
	    $$(pkg-config --cflags --libs grpc++ protobuf) -pthread -o $@

clean:
	rm -rf build
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
