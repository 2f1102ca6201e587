"""Writers of quantized weights in the layouts of GPTQ, AWQ and FP8 by blocks, from their definitions.

They pack bit by bit with Python's whole numbers, so that nothing is shared with what reads them.
"""

import json

import numpy as np
import torch
from safetensors.torch import save_file


def in_words(codes, bits):
    """Codes of `(lines, count)` → int32 `(lines, words)`, the first code in the lowest bits."""
    each = np.unpackbits(codes.numpy().astype(np.uint8)[..., None], axis=-1, count=bits, bitorder="little")
    of_lines = each.reshape(len(codes), -1)
    whole = np.pad(of_lines, ((0, 0), (0, -of_lines.shape[1] % 32)))
    return torch.from_numpy(np.packbits(whole, axis=-1, bitorder="little").view(np.int32))


def gptq(base, q, zero, scale, bits, *, version=1, g_idx=None):
    """`q` (rows, columns); `zero` and `scale` (rows, groups)."""
    stored = (zero - 1) & ((1 << bits) - 1) if version == 1 else zero
    columns, groups = q.shape[1], scale.shape[1]
    g_idx = torch.arange(columns) // -(-columns // groups) if g_idx is None else g_idx
    return {
        f"{base}.qweight": in_words(q, bits).T.contiguous(),
        f"{base}.qzeros": in_words(stored.T, bits),
        f"{base}.scales": scale.T.contiguous().to(torch.float16),
        f"{base}.g_idx": g_idx.to(torch.int32),
    }


def awq(base, q, zero, scale):
    def packed(lines):
        eights = lines.reshape(lines.shape[0], -1, 8)[:, :, [0, 2, 4, 6, 1, 3, 5, 7]]
        return in_words(eights.reshape(lines.shape), 4)

    return {
        f"{base}.qweight": packed(q.T),
        f"{base}.qzeros": packed(zero.T),
        f"{base}.scales": scale.T.contiguous().to(torch.float16),
    }


def fp8_blocks(base, weight, size=128):
    """The tensors of a weight rounded to FP8 with one scale a block of `size` × `size`."""
    rows, columns = weight.shape
    scales = torch.empty(-(-rows // size), -(-columns // size))
    codes = torch.empty(rows, columns, dtype=torch.float8_e4m3fn)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            place = slice(i * size, (i + 1) * size), slice(j * size, (j + 1) * size)
            scales[i, j] = weight[place].abs().max() / 448
            codes[place] = (weight[place] / scales[i, j]).to(torch.float8_e4m3fn)
    return {f"{base}.weight": codes, f"{base}.weight_scale_inv": scales}


def rounded(weight, bits, group, *, symmetric=False):
    """Codes, zero points and float16 scales of round to nearest in groups, as GPTQ's quantizer has them."""
    rows, columns = weight.shape
    parts = weight.reshape(rows, -1, group)
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    if symmetric:
        high = torch.maximum(-low, high)
        low = -high
    top = (1 << bits) - 1
    scale = ((high - low) / top).to(torch.float16).float()
    zero = torch.full_like(scale, (top + 1) // 2) if symmetric else torch.round(-low / scale)
    q = (torch.round(parts / scale.unsqueeze(-1)) + zero.unsqueeze(-1)).clamp(0, top)
    return q.reshape(rows, columns).int(), zero.int(), scale


def write(path, tensors, quantization=None):
    """Write a .safetensors, and beside it a `config.json` where there is a quantization to tell."""
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    if quantization is not None:
        (path.parent / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    return path


def by_gptq(weight, inputs, bits, group, *, act_order=False):
    """Codes, zero points, scales and `g_idx` by GPTQ: later columns make up for earlier errors."""
    hessian = inputs.double().T @ inputs.double()
    hessian += torch.eye(len(hessian)) * 0.01 * hessian.diagonal().mean()
    order = hessian.diagonal().argsort(descending=True) if act_order else torch.arange(weight.shape[1])
    left, hessian = weight.double()[:, order], hessian[order][:, order]
    inverse = torch.linalg.cholesky(torch.linalg.inv(hessian), upper=True)
    q = torch.empty(weight.shape, dtype=torch.int32)
    zeros, scales, errors = [], [], []
    for column in range(weight.shape[1]):
        if column % group == 0:
            _, zero, scale = rounded(left[:, column : column + group].float(), bits, group)
            zeros.append(zero)
            scales.append(scale)
        codes = (torch.round(left[:, column : column + 1] / scale) + zero).clamp(0, (1 << bits) - 1)
        q[:, order[column]] = codes[:, 0].int()
        error = (left[:, column] - (scale * (codes - zero))[:, 0]) / inverse[column, column]
        end = column - column % group + group
        left[:, column:end] -= error.unsqueeze(1) * inverse[column, column:end].unsqueeze(0)
        errors.append(error)
        if column + 1 == end:  # all further groups make up for this one at once
            left[:, end:] -= torch.stack(errors, 1) @ inverse[end - group : end, end:]
            errors = []
    g_idx = torch.empty(weight.shape[1], dtype=torch.int64)
    g_idx[order] = torch.arange(weight.shape[1]) // group
    return q, torch.cat(zeros, 1), torch.cat(scales, 1), g_idx


#: The layers of a small Llama: name and shape, with 4 heads for q and 2 for k and v, of 16 rows each.
LLAMA = {
    "input_layernorm": (64,),
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "post_attention_layernorm": (64,),
    "mlp.gate_proj": (96, 64),
    "mlp.up_proj": (96, 64),
    "mlp.down_proj": (64, 96),
}


def llama(seed=0, layers=1):
    """The tensors of a small Llama by name, float32."""
    random = torch.Generator().manual_seed(seed)
    made = {"model.embed_tokens.weight": torch.randn(40, 64, generator=random)}
    for layer in range(layers):
        for name, shape in LLAMA.items():
            own = torch.randn(shape, generator=random)
            made[f"model.layers.{layer}.{name}.weight"] = own * 0.02 if len(shape) > 1 else 1 + own * 0.1
    return {
        **made,
        "model.norm.weight": torch.ones(64),
        "lm_head.weight": torch.randn(40, 64, generator=random),
    }


def quantized_by(tensors, quantize):
    """The same tensors with the layers' matrices replaced by what `quantize(base, weight)` makes of them."""
    made = {}
    for name, tensor in tensors.items():
        if "_proj" in name:
            made |= quantize(name.removesuffix(".weight"), tensor)
        else:
            made[name] = tensor.half()
    return made
