-- Writes the commits of rooms that are locked together: all of them, or none. The locks
-- stay held.
--
-- KEYS  seven for each room: the three of its lock, Users, Meta, Said and Log
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3..] for each room: how many arguments follow, and these: the token, an empty one, and the commit
--       as in room.lua.
--       Rooms are written in order. The room that users enter comes first: it needs memory,
--       which Redis may refuse to the first write only. The last room is always written: its
--       field moved shows that the same request came before
--
-- returns {'done', error, error, ...} written, now or when this same request came first; and
--                              why Redis did not take the event and the entry in the journal
--                              of each room, or false
--         {'lost'}             nothing written: the writer lacks a lock
--         {'stale'}            nothing written: one of the rooms has changed
--         {'refused', reason}  nothing written: Redis takes no writes
local rooms, next = {}, 3
for key = 1, #KEYS, 7 do
  local token = next + 1
  next = token + ARGV[next]
  rooms[#rooms + 1] = {key = key, token = token, at = token + 2, last = next - 1}
end
local held, known = true, true
for _, room in ipairs(rooms) do
  held = held and lock_holds(room.key, ARGV[room.token])
end
for _, room in ipairs(rooms) do
  local _
  _, _, room.epoch, room.idle, room.fields, room.journal, room.said, room.most = room_optional(room.at)
  local is = redis.call('HMGET', KEYS[room.key + 4], 'mark', 'incarnation')
  room.there = held and room_count(KEYS[room.key + 3], is, room.at, room.epoch)
  known = known and room.there
end
local done = {'done'}
if not known then
  local at, meta = rooms[#rooms].at, KEYS[#KEYS - 2]
  if redis.call('HGET', meta, ARGV[at + 2]) ~= ARGV[at] then
    return {held and 'stale' or 'lost'}
  end
  redis.call('HSET', meta, ARGV[at + 2], ARGV[at]) -- for a WAIT, which counts from the connection's last write
  return done
end
for _, room in ipairs(rooms) do
  if ARGV[room.at + 4] ~= '' then
    local key = room.key
    local refused, unheard, unlogged = room_write(KEYS[key + 3], KEYS[key + 4], KEYS[key + 5], KEYS[key + 6], room.at, room.last, room.there, room.epoch, room.idle, room.fields, room.journal, room.said, room.most)
    if refused then -- by the first write
      return {'refused', refused}
    end
    done[#done + 1] = unheard or false
    done[#done + 1] = unlogged or false
  else
    done[#done + 1] = false
    done[#done + 1] = false
  end
end
return done
