"""Publishing a table into another one."""
