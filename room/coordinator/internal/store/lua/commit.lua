-- Writes a commit of a room, under the room's lock. A writer that holds the lock also releases it.
-- A writer without the lock writes at once if the lock is free and nobody waits: acquire, write and
-- release are then this one step. Otherwise its token gets the lock, or waits for it.
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta
-- KEYS[6] Room:<id>:Said   KEYS[7] Room:<id>:Log, only with a journal
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] token           ARGV[4] empty if the lock has to be the token's; else the TTL of a hold that
--                         begins here, see room_ttl, and what to do if the lock is free and the room
--                         has changed: "lock" takes the lock, "read" only returns the room, and "wait"
--                         does neither, since the writer gets the events
-- ARGV[5..] the commit; see room.lua
--
-- returns {'done', 1}          written (or nothing was to be), now or when this same
--                              commit came first; the lock was passed to the next token
--         0                    {'done', 0}, by a writer without the lock: a reply without a table takes Redis
--                              half a microsecond less
--         {'done', false}      written; and the next token waits for the lock
--         {'done', 0}          written; and the next token, if any, gets nothing
--         {'done', ..., error} written; but Redis refused the event
--         {'done', ..., error or false, error}  written; but Redis refused the entry
--                              of the journal
--         {'stale', epoch, version, commit id, members, settings, data, bans, gone, timers, host, incarnation, {user, member, ...}}
--                              nothing written, the token holds the lock: the room is
--                              at another version, or not whole, or does not know the writer's
--                              node; this is the room now (see load.lua)
--         {'conflict', epoch, ...}  the same, but the token does not get the lock, which is free
--         1                    {'conflict'}, for a writer that waits for events
--         {'queued'}           nothing written: another holds the lock or waits for it, and the token waits
--         {'lost'}             nothing written: the token had to hold the lock, and does not; nor
--                              does it wait for the lock
--         {'refused', reason}  nothing written: Redis takes no writes
--
-- A script does not roll back: everything is checked first (types by the first
-- commands), and the first write is the one that Redis may refuse.
local is = redis.call('HMGET', KEYS[5], 'mark', 'incarnation', ARGV[7])
-- A client sends a commit again when the reply was lost. By then the lock has been released, so Meta
-- tells whether this same commit came before.
local before = is[3] == ARGV[5]
if before then
  redis.call('HSET', KEYS[5], ARGV[7], ARGV[5]) -- for a WAIT, which counts from the connection's last write
end
if before and (ARGV[4] == '' or redis.call('EXISTS', KEYS[1], KEYS[2]) == 0) then
  return {'done', false}
end
local next, next_ttl, epoch, idle, fields, journal, said, most = room_optional(5)
-- A writer without the lock may have stalled for any time since it checked that its node lives. Others may have
-- removed the node's members since, and then its id: without an id, the writer must check again.
local writes, known = ARGV[9] ~= '', ARGV[4] == '' or is[3]
local free = ARGV[4] ~= '' and known and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0
local there = not before and (free or not writes) and room_count(KEYS[4], is, 5, epoch)
-- A commit that writes nothing needs no lock to know that the room is current.
local alone, release = there and ARGV[4] ~= '', nil
-- If the room differs from the writer's copy, most often another writer has just committed. If this one took the lock,
-- the next writer would have to wait for it, and so would each later one.
local conflict = free and not there and string.match(ARGV[4], '%a+')
if conflict == 'wait' then
  return 1
elseif conflict == 'read' then
  return {'conflict', unpack(room_read(KEYS[4], KEYS[5]), 1, 12)}
end
if not alone then
-- lock.lua
  if before then
    lock_abandon(1, ARGV[3]) -- a sending may have waited, and then an earlier one was carried out
    return {'done', false}
  end
  local ttl = room_ttl(KEYS[5])
  if not ttl and not lock_holds(1, ARGV[3]) then
    -- The token may wait again, if its wake-up has come late. It must not get the lock: a copy of this request
    -- would then write.
    redis.call('ZREM', KEYS[2], ARGV[3])
    return {'lost'}
  elseif ttl and not lock_acquire(1, ARGV[3], ttl, true) then
    return {'queued'}
  end
  there = there or known and room_count(KEYS[4], is, 5, epoch)
  if not there then
    return {'stale', unpack(room_read(KEYS[4], KEYS[5]), 1, 12)}
  end
  release = lock_release
end
local refused, unheard, unlogged
if writes then
  refused, unheard, unlogged = room_write(KEYS[4], KEYS[5], KEYS[6], KEYS[7], 5, #ARGV, there, epoch, idle, fields, journal, said, most)
  if refused then
    return {'refused', refused}
  end
end
if alone and not unheard and not unlogged then
  return 0
end
local held, position = false, nil
if release then
  held, position = release(1, next ~= '' and next, next_ttl ~= '' and next_ttl)
end
return {'done', held and 1 or not position and 0, unheard or unlogged and false, unlogged}
