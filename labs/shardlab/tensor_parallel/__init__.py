"""Every rank has a part of each matrix: column and row layers, and a transformer block made of them."""
