"""The paper's tables on images: their cells, a request for a part, and what trains them."""
