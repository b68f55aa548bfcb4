"""What goes in: scenario files, trace files, and the command line that runs both without a browser."""
