"""A gateway's announcement door that loads the announced weights and answers the probe itself."""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import grpc
import torch
from envfarm.v1 import gateway_service_pb2, gateway_service_pb2_grpc, policy_pb2

with redirect_stdout(sys.stderr):
    from transformers import AutoModelForCausalLM

TOKEN = "learner-test-token"


def score_with(folder: Path):
    """Log-probabilities of ids[1:] under a weights folder, by transformers alone."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def score(ids: list[int]) -> list[float]:
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, :-1]
        return logits.log_softmax(-1).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()

    return score


class RecordingGateway(gateway_service_pb2_grpc.GatewayServiceServicer):
    """Serves on `port` (0 chooses); `updates` holds every accepted announcement in order."""

    def __init__(self, port: int = 0, *, extra_gap: float = 0.0):
        self.updates: list[policy_pb2.WeightUpdate] = []
        self.extra_gap = extra_gap
        self.server = grpc.server(ThreadPoolExecutor(2))
        gateway_service_pb2_grpc.add_GatewayServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        self.server.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def versions(self) -> list[tuple[int, str]]:
        return [(u.version.number, u.version.weights_hash) for u in self.updates]

    def AnnouncePolicy(self, request, context):
        if dict(context.invocation_metadata()).get("authorization") != f"Bearer {TOKEN}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong token")
        update = request.update
        ours = score_with(Path(update.path))(list(update.probe.token_ids))
        gap = max(abs(a - b) for a, b in zip(ours, update.probe.logprobs, strict=True))
        self.updates.append(update)
        return gateway_service_pb2.AnnouncePolicyResponse(
            in_service=update.version, max_logprob_gap=gap + self.extra_gap
        )

    def stop(self) -> None:
        self.server.stop(None).wait()
