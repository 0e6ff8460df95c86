-- Writes what a hold did to a room, if the lock is still the writer's, and gives
-- the lock back.
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta
-- KEYS[6] Room:<id>:Log, only with a journal
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3..] the commit; see room.lua
--
-- returns {'done', 1}          written (or nothing was to be), now or when this same
--                              commit came first; the lock was passed to the next token
--         {'done', false}      the same; and the next token waits for the lock
--         {'done', 0}          the same; and the next token, if any, is nowhere
--         {'done', ..., error} the same; but Redis did not take the event
--         {'done', ..., error or false, error}  the same; but it did not take the entry
--                              of the journal
--         {'lost'}             nothing written: the lock is not the writer's
--         {'stale', epoch, version, mark, members, settings, data, bans, gone, {user, member, ...}}
--                              nothing written, the lock is still held: the room is
--                              at another version, or not whole; this is what it is
--                              (see load.lua)
--         {'refused', reason}  nothing written: Redis takes no writes
--
-- A script does not roll back: everything is checked first (types by the first
-- commands), and the first write is the one that Redis may refuse.
if not lock_holds(1, ARGV[3]) then
  -- A client sends a commit again when the reply was lost. By then the lock has been
  -- given back, so Meta has to tell whether this same commit came before.
  if redis.call('HGET', KEYS[5], ARGV[5]) == ARGV[3] then
    redis.call('HSET', KEYS[5], ARGV[5], ARGV[3]) -- for a WAIT, which counts from the connection's last write
    return {'done', false}
  end
  return {'lost'}
end
local there = room_count(KEYS[4], KEYS[5], 3)
if not there then
  return {'stale', unpack(room_read(KEYS[4], KEYS[5]), 1, 9)}
end
local next, ttl, epoch, idle, fields, journal = room_rare(3)
local refused, unheard, unlogged
if ARGV[7] ~= '' then
  refused, unheard, unlogged = room_write(KEYS[4], KEYS[5], KEYS[6], 3, #ARGV, there, epoch, idle, fields, journal)
  if refused then
    return {'refused', refused}
  end
end
local given, place = lock_give(1, next ~= '' and next, ttl ~= '' and ttl)
return {'done', given and 1 or not place and 0, unheard or unlogged and false, unlogged}
