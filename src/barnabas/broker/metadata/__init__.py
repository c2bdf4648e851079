"""Topics, configs and ids, behind one interface with several homes."""
