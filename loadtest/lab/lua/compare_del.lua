-- Deletes the lock if it holds the caller's value.
-- KEYS[1] lock   ARGV[1] value
-- returns how many keys were deleted
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
