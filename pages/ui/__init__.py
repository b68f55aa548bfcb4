"""What pages share: the stage component, the frame it draws, the message catalogue and the colours."""
