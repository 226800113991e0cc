"""The other side of bench/compare_pytorch.py: attention as it is done in PyTorch and ONNX Runtime.

Each peer_NAME makes its inputs and returns a function that runs once. Batch 1, 8 heads of 64 unless
the arguments say otherwise.
"""

import math


def numbers(*shape, grad=False, dtype=None):
    import torch

    return torch.randn(*shape, dtype=torch.float32).to(dtype or torch.float32).requires_grad_(grad)


def train_step(call, *leaves):
    """Forward, and backward into the leaves, like a training step that sets gradients to None."""
    gradient = []

    def step():
        for leaf in leaves:
            leaf.grad = None
        out = call()
        if not gradient:
            gradient.append(numbers(*out.shape, dtype=out.dtype))
        out.backward(gradient[0])

    return step


def inference(call):
    import torch

    def step():
        with torch.inference_mode():
            call()

    return step


def qkv(n, grad, dtype=None):
    return [numbers(1, 8, n, 64, grad=grad, dtype=dtype) for _ in range(3)]


def peer_sdpa(n, causal, way, dtype="float32"):
    import torch

    q, k, v = qkv(n, way != "fwd", getattr(torch, dtype))

    def call():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return inference(call) if way == "fwd" else train_step(call, q, k, v)


def t5_bucket(distance, bidirectional, buckets=32, max_distance=128):
    """As transformers computes it; distance is key minus query."""
    import torch

    result = 0
    if bidirectional:
        buckets //= 2
        result = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    far = (
        exact
        + (
            torch.log(distance.float() / exact) / math.log(max_distance / exact) * (buckets - exact)
        ).long()
    )
    return result + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


def t5_matrix(table, n, bidirectional=True):
    """[1, H, n, n] of a table [buckets, H], as T5's compute_bias does in every forward pass."""
    import torch

    at = torch.arange(n)
    bucket = t5_bucket(at[None, :] - at[:, None], bidirectional)
    return torch.nn.functional.embedding(bucket, table).permute(2, 0, 1).unsqueeze(0)


def peer_bias(n, built):
    import torch

    q, k, v = qkv(n, False)
    table = numbers(32, 8)
    ready = None if built else t5_matrix(table, n).contiguous()

    def call():
        bias = t5_matrix(table, n) if built else ready
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    return inference(call)


def peer_learned(n, causal):
    import torch

    q, k, v = qkv(n, True)
    table = numbers(32, 8, grad=True)
    mask = torch.full((n, n), -math.inf).triu(1) if causal else None

    def call():
        bias = t5_matrix(table, n, not causal)
        if causal:
            bias = bias + mask
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    return train_step(call, q, k, v, table)


def peer_flex(n, causal, kind):
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = qkv(n, False)
    table = numbers(32, 8)
    at = torch.arange(-(n - 1), n)
    bucket = t5_bucket(at, True)
    slopes = torch.tensor([2.0 ** -(h + 1) for h in range(8)])
    score = {
        "plain": None,
        "t5": lambda s, b, h, i, j: s + table[bucket[j - i + n - 1], h],
        "alibi": lambda s, b, h, i, j: (
            s + slopes[h] * (j - i) if causal else s - slopes[h] * (j - i).abs()
        ),
    }[kind]
    block = (
        create_block_mask(lambda b, h, i, j: j <= i, None, None, n, n, device="cpu")
        if causal
        else None
    )
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention)
    return inference(lambda: compiled(q, k, v, score_mod=score, block_mask=block))


def peer_shaw(n, way, k=16):
    import torch

    q, key, v = qkv(n, way != "fwd")
    rows_k, rows_v = (
        numbers(2 * k + 1, 64, grad=way != "fwd"),
        numbers(2 * k + 1, 64, grad=way != "fwd"),
    )
    at = torch.arange(n)
    index = (at[None, :] - at[:, None]).clamp(-k, k) + k

    def call():
        relative_k, relative_v = rows_k[index], rows_v[index]  # [n, n, D]
        scores = q @ key.transpose(-1, -2) + torch.einsum("bhid,ijd->bhij", q, relative_k)
        p = torch.softmax(scores / math.sqrt(64), -1)
        return p @ v + torch.einsum("bhij,ijd->bhid", p, relative_v)

    return inference(call) if way == "fwd" else train_step(call, q, key, v, rows_k, rows_v)


def peer_xl(n, way):
    import torch

    grad = way != "fwd"
    q, k, v = qkv(n, grad)
    u, w = numbers(8, 1, 64, grad=grad), numbers(8, 1, 64, grad=grad)
    r = numbers(8, n, 64, grad=grad)  # W_R R of the distances n-1 ... 0
    mask = torch.ones(n, n, dtype=torch.bool).triu(1)

    def shift(
        x,
    ):  # the published trick: one column of padding, and the same memory read with another width
        x = torch.nn.functional.pad(x, (1, 0)).view(1, 8, n + 1, n)
        return x[:, :, 1:].view(1, 8, n, n)

    def call():
        content = torch.einsum("bhid,bhjd->bhij", q + u, k)
        position = shift(torch.einsum("bhid,hjd->bhij", q + w, r))
        scores = ((content + position) / math.sqrt(64)).masked_fill(mask, -math.inf)
        return torch.einsum("bhij,bhjd->bhid", torch.softmax(scores, -1), v)

    return inference(call) if way == "fwd" else train_step(call, q, k, v, u, w, r)


def peer_decode(n, h, g, d, dtype):
    import torch

    dtype = getattr(torch, dtype)
    q = numbers(1, h, 1, d, dtype=dtype)
    k, v = numbers(1, g, n, d, dtype=dtype), numbers(1, g, n, d, dtype=dtype)
    return inference(
        lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=h != g)
    )


def peer_onnx(n, causal, bias=False):
    import numpy
    import onnx
    import onnxruntime
    import torch

    size = [1, n, 512]
    value = lambda name, shape: onnx.helper.make_tensor_value_info(  # noqa: E731
        name, onnx.TensorProto.FLOAT, shape
    )
    inputs = [value(name, size) for name in ("query", "key", "value")]
    names = ["query", "key", "value"]
    feed = {name: numpy.random.randn(*size).astype(numpy.float32) for name in names}
    if bias:
        inputs.append(value("bias", [1, 8, n, n]))
        names += ["", "", "bias"]
        feed["bias"] = t5_matrix(numbers(32, 8), n).contiguous().numpy()
    node = onnx.helper.make_node(
        "MultiHeadAttention",
        names,
        ["out"],
        domain="com.microsoft",
        num_heads=8,
        unidirectional=int(causal),
    )
    graph = onnx.helper.make_graph([node], "attention", inputs, [value("out", size)])
    model = onnx.helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[
            onnx.helper.make_opsetid("", 17),
            onnx.helper.make_opsetid("com.microsoft", 1),
        ],
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(["out"], feed)


def make_peer(text, n):
    name, *words = text.split()
    arguments = {}
    for word in words:
        key, value = word.split("=")
        arguments[key] = {"True": True, "False": False}.get(
            value, int(value) if value.isdigit() else value
        )
    return globals()["peer_" + name](n, **arguments)
