"""What commands share: the installation, the stores and the API of a command, printing, charts."""
