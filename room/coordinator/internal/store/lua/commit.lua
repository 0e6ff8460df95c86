-- Writes what was done to a room, under its lock. A writer that holds the lock gives it back with that.
-- One that does not writes at once if the lock is free and nobody waits: then taking the lock, writing and
-- giving it back are this one step. Else its token gets the lock, or waits for it.
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta
-- KEYS[6] Room:<id>:Log, only with a journal
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] token           ARGV[4] empty if the lock has to be the token's; else the TTL of a hold that
--                         begins here, see room_ttl, and what is done where the lock is free and the
--                         room another one: "lock" takes the lock, "read" only returns the room, and "wait"
--                         not even that, since the writer gets its events
-- ARGV[5..] the commit; see room.lua
--
-- returns {'done', 1}          written (or nothing was to be), now or when this same
--                              commit came first; the lock was passed to the next token
--         0                    {'done', 0}, by a writer without the lock: a reply without a table takes Redis
--                              half a microsecond less
--         {'done', false}      the same; and the next token waits for the lock
--         {'done', 0}          the same; and the next token, if any, is nowhere
--         {'done', ..., error} the same; but Redis did not take the event
--         {'done', ..., error or false, error}  the same; but it did not take the entry
--                              of the journal
--         {'stale', epoch, version, commit id, members, settings, data, bans, gone, timers, host, incarnation, {user, member, ...}}
--                              nothing written, the lock is the token's: the room is
--                              at another version, or not whole, or does not know the writer's
--                              node; this is what it is (see load.lua)
--         {'conflict', epoch, ...}  the same, but the token has nothing: the lock was free, and is
--         1                    {'conflict'}, to a writer that waits for events
--         {'queued'}           nothing written: another holds the lock or waits for it, and the token waits
--         {'lost'}             nothing written: the lock, which had to be the token's, is not, and
--                              the token does not wait for it
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
-- A writer without the lock may have stood still since it looked whether its node lives, for any time. Others have
-- removed the node's members then, and after that its id: so one that has no id here looks again.
local writes, known = ARGV[9] ~= '', ARGV[4] == '' or is[3]
local free = ARGV[4] ~= '' and known and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0
local there = not before and (free or not writes) and room_count(KEYS[4], is, 5, epoch)
-- A commit that writes nothing needs no lock to know that the room is this one.
local alone, release = there and ARGV[4] ~= '', nil
-- A writer that finds another room than its copy most often meets one that is done with it. If it took the lock for that,
-- the next writer would have to wait for the lock, and each for the next from then on.
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
  refused, unheard, unlogged = room_write(KEYS[4], KEYS[5], KEYS[6], 5, #ARGV, there, epoch, idle, fields, journal, said, most)
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
