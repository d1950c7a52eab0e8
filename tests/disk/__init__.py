"""Tables as an earlier version of Holdfast wrote them, in use."""
