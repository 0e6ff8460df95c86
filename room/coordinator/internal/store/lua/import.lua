-- Makes a room of the list of users that another program keeps under the key of its members, under the room's lock.
-- The list stays, under another key.
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta   KEYS[6] Room:<id>:Log
-- KEYS[7] the key that the list has afterwards
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] token           ARGV[4] empty
-- ARGV[5..] the commit; see room.lua. If it writes nothing the list is renamed all the same
-- ARGV[#ARGV] SHA-1 of the list that the commit was made from: of each entry, with its length and a colon before
--
-- returns {'done', error, error} written, now or when this same request came first; and why Redis did not take the
--                                event and the entry in the journal, or false
--         {'lost'}               nothing written: the lock is not the writer's
--         {'stale'}              nothing written: the list is another one, or there is a room, or the last key is taken
--         {'refused', reason}    nothing written: Redis takes no writes
if redis.call('HGET', KEYS[5], ARGV[7]) == ARGV[5] then
  redis.call('HSET', KEYS[5], ARGV[7], ARGV[5]) -- for a WAIT, which counts from the connection's last write
  return {'done'}
end
if not lock_holds(1, ARGV[3]) then
  return {'lost'}
end
local kind, list = redis.call('TYPE', KEYS[4]).ok, {}
if kind == 'list' then
  list = redis.call('LRANGE', KEYS[4], 0, -1)
elseif kind == 'string' then
  list = {redis.call('GET', KEYS[4])}
else
  return {'stale'}
end
for i, entry in ipairs(list) do
  list[i] = #entry .. ':' .. entry
end
if redis.sha1hex(table.concat(list)) ~= ARGV[#ARGV] or redis.call('EXISTS', KEYS[5], KEYS[7]) > 0 then
  return {'stale'}
end
-- Redis may refuse the first write only, also when it is out of memory.
local renamed = redis.pcall('RENAME', KEYS[4], KEYS[7])
if renamed.err then
  return {'refused', renamed.err}
end
redis.call('PERSIST', KEYS[7])
if ARGV[9] == '' then
  return {'done', false, false}
end
local _, _, epoch, idle, fields, journal, said, most = room_optional(5)
local refused, unheard, unlogged = room_write(KEYS[4], KEYS[5], KEYS[6], 5, #ARGV - 1, 0, epoch, idle, fields, journal, said, most)
if refused then
  redis.call('RENAME', KEYS[7], KEYS[4])
  return {'refused', refused}
end
return {'done', unheard or false, unlogged or false}
