"""Where releases are stored: in the control folder, in another folder, in an object store or on HDFS.

Not by `airflow.sdk.ObjectStoragePath`, as tried in November 2026: no provider has HDFS; fsspec's own WebHDFS waits for
ever, and its rename moves a folder into the one that is there; a store's refusal to write twice comes as an error that
could be any other; and the providers of the three stores bring 20, 53 and 118 packages in place of one.
"""
