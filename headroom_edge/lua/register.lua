-- Registers all defined functions, with the prefix that the loader fills in.
for i = 1, #H.functions do
  local name, flags, body = H.functions[i][1], H.functions[i][2], H.functions[i][3]
  redis.register_function({
    function_name = '@PREFIX@' .. name,
    flags = flags,
    callback = H.with_time(body),
  })
end
