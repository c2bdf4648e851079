"""The PySpark data source and sink."""
