"""Read the experiment file: `model` has its entries, `load` reads it and reports its mistakes."""
