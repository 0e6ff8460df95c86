-- Writes what a hold did to a room, if the lock is still the writer's, and gives
-- the lock back.
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] token           ARGV[4] the same node's next token, or empty
-- ARGV[5] TTL in ms       ARGV[6] ms to keep the queue
-- ARGV[7] by:<node>
-- ARGV[8], ARGV[9], ARGV[17] epoch, version and mark that the changes build on; all
--          may be empty
-- ARGV[10], ARGV[15] epoch and version that are written
-- ARGV[11] event, or empty if there is nothing to write
-- ARGV[12] channel
-- ARGV[13] ms after which the keys of the room expire; 0: never; empty: as before
-- ARGV[14] how many members are set; from ARGV[18] user, member for each of them,
--          then the users that are removed
-- ARGV[16] empty: the lock has to be the writer's
--          elide: or free, and waited for by nobody: the script itself is the hold
--          void: write nothing, and see to it that no copy of this commit does that
--          is still on its way
--
-- returns {'done', 1}          written (or nothing was to be), now or when this same
--                              commit came first; the lock was passed to the next token
--         {'done', false}      the same; and the next token waits for the lock
--         {'lost'}             nothing written: the lock is not the writer's
--         {'stale', epoch or false, version or false, mark or false, {user, member, ...}}
--                              nothing written, the lock is still held: the room is
--                              at another version, this one
--         {'refused', reason}  nothing written: Redis takes no writes
--
-- A script does not roll back: everything is checked first, the first write is
-- the one that Redis may refuse, and the event goes out last.
local elided = false
if ARGV[16] == 'elide' then
  elided = redis.call('EXISTS', KEYS[1], KEYS[2]) == 0
end
if ARGV[16] ~= '' or redis.call('GET', KEYS[1]) ~= ARGV[3] then
  -- A client sends a commit again when the reply was lost. By then the lock has
  -- been given back, so it has to be asked whether this same commit came before.
  local before, void = redis.call('HGET', KEYS[5], ARGV[7]), 'void:' .. ARGV[3]
  if before == ARGV[3] then
    redis.call('HSET', KEYS[5], ARGV[7], before) -- for a WAIT: it counts from the connection's last write
    return {'done', false}
  end
  if ARGV[16] == 'void' then
    redis.call('HSET', KEYS[5], ARGV[7], void)
    if redis.call('HEXISTS', KEYS[5], 'epoch') == 0 then
      redis.call('PEXPIRE', KEYS[5], 60000)
    end
  end
  if not elided or before == void then
    return {'lost'}
  end
end
-- A version alone does not say what is in the room: where a failover has lost a
-- commit, another one may have its number by now. The mark is of that one commit.
local at = redis.call('HMGET', KEYS[5], 'epoch', 'version', 'mark')
if (at[1] or '') ~= ARGV[8] or (at[2] or '') ~= ARGV[9] or (at[3] or '') ~= ARGV[17] then
  return {'stale', at[1], at[2], at[3], redis.call('HGETALL', KEYS[4])}
end

if ARGV[11] ~= '' then
  -- Holds that write are counted by versions, so the version is a fence as well.
  local written = redis.pcall('HSET', KEYS[5], 'epoch', ARGV[10], 'version', ARGV[15], 'fence', ARGV[15], 'mark', string.sub(ARGV[3], -12), ARGV[7], ARGV[3])
  if type(written) == 'table' then
    return {'refused', written.err}
  end
  local removed = 18 + 2 * ARGV[14]
  for i = 18, removed - 1, 1000 do
    redis.call('HSET', KEYS[4], unpack(ARGV, i, math.min(i + 999, removed - 1)))
  end
  for i = removed, #ARGV, 1000 do
    redis.call('HDEL', KEYS[4], unpack(ARGV, i, math.min(i + 999, #ARGV)))
  end
  if ARGV[13] == '0' then
    redis.call('PERSIST', KEYS[5])
  elseif ARGV[13] ~= '' then
    redis.call('PEXPIRE', KEYS[5], ARGV[13])
  end
  redis.call(ARGV[1], ARGV[12], ARGV[11])
end

if elided then
  return {'done', false}
end
-- What follows is lock_give and lock_pass for a lock that no other node waits for.
-- It stands before the functions of the lock, because making those takes Redis as
-- long as this whole script.
if redis.call('EXISTS', KEYS[2]) == 0 then
  if ARGV[4] == '' then
    redis.call('DEL', KEYS[1])
    return {'done', false}
  end
  redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
  return {'done', 1}
end
