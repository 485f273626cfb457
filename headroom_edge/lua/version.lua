-- hr_version: the version of the library on this server. Writes nothing, needs no key.
H.define('version', { 'no-writes' }, function() return H.version end)
