-- Stores the value or the error of a load, and releases the lock, if the loader still
-- holds it. It releases the lock even if Redis refuses the write: at its maxmemory, or
-- because the user may not write there.
-- KEYS[1..3] lock   KEYS[4] where to store   KEYS[5] is deleted, if there is one
-- ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- ARGV[4] field   ARGV[5] its content   ARGV[6] ms to keep it
-- returns {1}       stored, by this request or by an earlier copy of it
--         {1, why}  not stored, and why; the lock is released
--         {0}       nothing was done: the token does not hold the lock
if not lock_holds(1, ARGV[3]) then -- unless it was stored, and the reply lost
  return {redis.call('HGET', KEYS[4], 'by') == ARGV[3] and 1 or 0}
end
local now = redis.call('TIME')
local reply = redis.pcall('HSET', KEYS[4], ARGV[4], ARGV[5], 'by', ARGV[3], 'at', string.format('%.0f', now[1] * 1000000 + now[2]))
local refused = type(reply) == 'table' and reply.err
if not refused then
  reply = redis.pcall('PEXPIRE', KEYS[4], ARGV[6])
  refused = type(reply) == 'table' and reply.err
  if refused then -- nothing stays for ever
    redis.pcall('DEL', KEYS[4])
  elseif KEYS[5] then
    redis.pcall('DEL', KEYS[5])
  end
end
lock_release(1)
return {1, refused}
