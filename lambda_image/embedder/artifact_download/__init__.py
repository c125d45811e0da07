"""Downloads the artifact from S3 when the function starts, because it does not fit its package.

`layout` says what the object has and which checksums its parts have, `s3_object` reads a part of
it, `transfer` reads all parts over several connections, and `download` puts the files into a
folder, checked. Imported only if the setting EMBEDDING_ARTIFACT_LOCATION names an object.
"""
