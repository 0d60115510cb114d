"""Every rank has the model, or its share of it, and a part of the batch: DDP, then ZeRO's stages 1, 2 and 3."""
