"""Methods that quantize a layer by its inputs: one file each, joined in a chain such as `rotation+gptq`."""
