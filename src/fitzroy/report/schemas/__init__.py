"""Published JSON Schemas, one file each; see `fitzroy.report.documents`."""
