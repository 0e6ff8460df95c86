-- Leaves what came of a load, a value or an error, and gives the lock back, if it is
-- still its loader's. The lock is given back even where nothing can be left: Redis is
-- at its maxmemory, or the user may not write there.
-- KEYS[1..3] lock   KEYS[4] where to leave it   KEYS[5], if there is one, is deleted
-- ARGV[1] publish   ARGV[2] claim   ARGV[3] token
-- ARGV[4] field   ARGV[5] its content   ARGV[6] ms to keep it
-- returns {1}       left there, by this request or when it was sent before
--         {1, why}  not left there, and why; the lock is given back
--         {0}       refused: the lock is not this token's any more
if not lock_holds(1, ARGV[3]) then
  return {redis.call('HGET', KEYS[4], 'by') == ARGV[3] and 1 or 0}
end
local reply = redis.pcall('HSET', KEYS[4], ARGV[4], ARGV[5], 'by', ARGV[3], 'at', string.format('%.0f', lock_now()))
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
lock_give(1, ARGV[3])
return {1, refused}
