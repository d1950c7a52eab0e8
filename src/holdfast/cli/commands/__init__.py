"""The subcommands of `holdfast`, a file each."""
