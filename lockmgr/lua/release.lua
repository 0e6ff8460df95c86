-- Releases the lock.
-- KEYS[1..3] lock   ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- returns 1 released, 0 not held by the token
local is = redis.call('MGET', KEYS[1], KEYS[3])
if is[1] ~= ARGV[3] then
  return 0
elseif lock_waits(1, is[2]) then
-- lock.lua
  lock_release(1, nil, nil, true)
else
  redis.call('DEL', KEYS[1])
end
return 1
