"""`embed batch`: jobs that embed the files of folders, on AWS or on this machine."""
