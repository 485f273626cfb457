-- For tests and simulations on throw-away servers only: the first argument is the time in microseconds.
function H.with_time(body)
  return function(keys, args)
    if not H.bound then H.bind() end
    local now = H.whole(table.remove(args, 1), 0, 9007199254740991)
    if not now then return H.fail('HRARGS', 'the first argument must be the time in whole microseconds') end
    return body(keys, args, now)
  end
end
