"""Where releases are stored: in the control folder, in another folder, in an object store or on HDFS."""
