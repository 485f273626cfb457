-- hr_version: the version of the library that this server runs. Writes nothing, needs no key.
H.define('version', { 'no-writes' }, function() return H.version end)
