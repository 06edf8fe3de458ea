"""Everything that touches the world: endpoints, processes, clocks."""
