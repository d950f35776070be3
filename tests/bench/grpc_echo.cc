// SPDX-License-Identifier: Apache-2.0
// The peer of bench_rpc: the same echo call through gRPC C++, callback API,
// insecure credentials, 64 calls in flight on one channel. Built only where
// gRPC C++ is installed; measures nothing of ours.
//
//   grpc_echo server ADDR          says "ready", serves until killed
//   grpc_echo client ADDR MS       prints calls a second
#include <grpcpp/grpcpp.h>

#include "sluice/v1/server.grpc.pb.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <csignal>

namespace {

using Clock = std::chrono::steady_clock;
using sluice::v1::EchoRequest;
using sluice::v1::EchoResponse;

constexpr int kInFlight = 64;
constexpr int kWarmMs = 200;

class Service : public sluice::v1::Server::CallbackService {
	grpc::ServerUnaryReactor *
	Echo(grpc::CallbackServerContext *ctx, const EchoRequest *req,
	    EchoResponse *rsp) override
	{
		rsp->set_body(req->body());
		auto *r = ctx->DefaultReactor();
		r->Finish(grpc::Status::OK);
		return r;
	}
};

int
serve(const char *addr)
{
	Service svc;
	grpc::ServerBuilder b;

	b.AddListeningPort(addr, grpc::InsecureServerCredentials());
	b.RegisterService(&svc);
	auto server = b.BuildAndStart();
	if (!server)
		return 1;
	puts("ready");
	fflush(stdout);
	server->Wait();
	return 0;
}

// Calls that finish between warm and end count.
struct Run {
	std::unique_ptr<sluice::v1::Server::Stub> stub;
	Clock::time_point warm, end;
	std::atomic<uint64_t> calls{0};
	std::mutex mu;
	std::condition_variable cv;
	int live = kInFlight;
};

struct Call {
	Run *run;
	unsigned seq;
	EchoRequest req;
	EchoResponse rsp;
	std::unique_ptr<grpc::ClientContext> ctx;

	void
	start()
	{
		ctx = std::make_unique<grpc::ClientContext>();
		req.mutable_body()->assign(64 + seq++ % 28, '\0');
		run->stub->async()->Echo(ctx.get(), &req, &rsp,
		    [this](const grpc::Status &st) { done(st); });
	}

	void
	done(const grpc::Status &st)
	{
		auto now = Clock::now();

		if (!st.ok()) {
			fprintf(stderr, "%s\n", st.error_message().c_str());
			_exit(1);
		}
		if (now >= run->end) {
			std::lock_guard<std::mutex> g(run->mu);
			if (--run->live == 0)
				run->cv.notify_all();
			return;
		}
		if (now >= run->warm)
			run->calls.fetch_add(1, std::memory_order_relaxed);
		start();
	}
};

int
call(const char *addr, int ms)
{
	auto ch = grpc::CreateChannel(addr, grpc::InsecureChannelCredentials());
	std::vector<Call> calls(kInFlight);
	Run run;

	if (!ch->WaitForConnected(
		std::chrono::system_clock::now() + std::chrono::seconds(5)))
		return 1;
	run.stub = sluice::v1::Server::NewStub(ch);
	run.warm = Clock::now() + std::chrono::milliseconds(kWarmMs);
	run.end = run.warm + std::chrono::milliseconds(ms);
	for (int i = 0; i < kInFlight; i++) {
		calls[i].run = &run;
		calls[i].seq = static_cast<unsigned>(i);
		calls[i].start();
	}
	std::unique_lock<std::mutex> l(run.mu);
	run.cv.wait(l, [&run] { return run.live == 0; });
	printf("%.0f\n", static_cast<double>(run.calls) * 1000.0 / ms);
	fflush(stdout);
	return 0;
}

} // namespace

int
main(int argc, char **argv)
{
	int rc = 2;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc == 3 && strcmp(argv[1], "server") == 0)
		rc = serve(argv[2]);
	else if (argc == 4 && strcmp(argv[1], "client") == 0)
		rc = call(argv[2], static_cast<int>(strtoul(argv[3], NULL, 10)));
	else
		fprintf(stderr, "usage: grpc_echo server ADDR | client ADDR MS\n");
	fflush(stdout);
	_exit(rc);
}
