-- Writes what a hold did to a room, if the lock is still the writer's, and gives
-- the lock back.
--
-- KEYS[1..3] the lock     KEYS[4] Room:<id>:Users   KEYS[5] Room:<id>:Meta
-- KEYS[6] Room:<id>:Log, only with a journal
-- ARGV[1], ARGV[2] of the lock (publish, claim)
-- ARGV[3] token
-- ARGV[4] mark of the room that the changes build on, empty if it has none
-- ARGV[5] by:<node>
-- ARGV[6] version that is written
-- ARGV[7] event, or empty if there is nothing to write
-- ARGV[8] channel
-- ARGV[9], ARGV[10] how many members that room has, and how many it has afterwards
-- ARGV[11] how many members are set; from ARGV[13] user, member for each of them,
--          then the users that are removed, then fields of Meta with their values
-- ARGV[12] empty, or what is seldom needed, in one with spaces between, since a few
--          arguments take Redis as long as a command:
--            next   the same node's next token
--            ttl    of its hold, in ms; empty if the token is only to wait where others
--                   do, and not to have the lock at once
--            epoch  that begins
--            idle   ms that Redis keeps the room, if it is empty now and not to be kept
--            fields how many arguments at the end are fields and values
--            journal only with one: about how many entries it keeps
--
-- returns {'done', 1}          written (or nothing was to be), now or when this same
--                              commit came first; the lock was passed to the next token
--         {'done', false}      the same; and the next token waits for the lock
--         {'done', 0}          the same; and the next token, if any, is nowhere
--         {'done', ..., error} the same; but Redis did not take the event
--         {'done', ..., error or false, error}  the same; but it did not take the entry
--                              of the journal
--         {'lost'}             nothing written: the lock is not the writer's
--         {'stale', epoch, version, mark, members, settings, data, bans, {user, member, ...}}
--                              nothing written, the lock is still held: the room is
--                              at another version, or not whole; this is what it is
--                              (see load.lua)
--         {'refused', reason}  nothing written: Redis takes no writes
--
-- A script does not roll back: everything is checked first (types by the first
-- commands), the first write is the one that Redis may refuse, and the entry of the
-- journal and the event come last. Should those fail, the commit is done all the same.
local next, ttl, epoch, idle, fields, journal, unheard, unlogged = '', '', '', '', 0, '', nil, nil
if ARGV[12] ~= '' then
  next, ttl, epoch, idle, fields, journal = string.match(ARGV[12], '^(%S*) (%S*) (%S*) (%S*) (%d+) ?(%d*)$')
end
if not lock_holds(1, ARGV[3]) then
  -- A client sends a commit again when the reply was lost. By then the lock has been
  -- given back, so Meta has to tell whether this same commit came before.
  if redis.call('HGET', KEYS[5], ARGV[5]) == ARGV[3] then
    redis.call('HSET', KEYS[5], ARGV[5], ARGV[3]) -- for a WAIT, which counts from the connection's last write
    return {'done', false}
  end
  return {'lost'}
end
-- A version does not say what is in the room: where a failover has lost a commit,
-- another one may have its number by now. The mark is of that one commit. Nor does the
-- mark say that its members are there: Redis may have evicted one key of the two, or
-- somebody removed some. So they are counted.
local there = redis.call('HLEN', KEYS[4])
if (redis.call('HGET', KEYS[5], 'mark') or '') ~= ARGV[4] or there ~= tonumber(ARGV[9]) then
  local at = redis.call('HMGET', KEYS[5], 'epoch', 'version', 'mark', 'members', 'settings', 'data', 'bans')
  return {'stale', at[1], at[2], at[3], at[4], at[5], at[6], at[7], redis.call('HGETALL', KEYS[4])}
end

if ARGV[7] ~= '' then
  local mark, removed, last, written = string.sub(ARGV[3], -17), 13 + 2 * ARGV[11], #ARGV - fields, nil
  -- Without memory Redis refuses HSET, but not after another write: so a commit that
  -- only removes begins with that, and leaves go through.
  if removed == 13 and last > 12 then
    written = redis.pcall('HDEL', KEYS[4], ARGV[13])
    removed = 14
  end
  if type(written) == 'table' then
    return {'refused', written.err}
  elseif epoch == '' then
    written = redis.pcall('HSET', KEYS[5], 'version', ARGV[6], 'members', ARGV[10], 'mark', mark, ARGV[5], ARGV[3])
  else
    written = redis.pcall('HSET', KEYS[5], 'version', ARGV[6], 'members', ARGV[10], 'mark', mark, ARGV[5], ARGV[3], 'epoch', epoch)
  end
  if type(written) == 'table' then
    return {'refused', written.err}
  end
  local set = 12 + 2 * ARGV[11]
  for i = 13, set, 1000 do
    redis.call('HSET', KEYS[4], unpack(ARGV, i, math.min(i + 999, set)))
  end
  for i = removed, last, 1000 do
    redis.call('HDEL', KEYS[4], unpack(ARGV, i, math.min(i + 999, last)))
  end
  if last < #ARGV then
    redis.call('HSET', KEYS[5], unpack(ARGV, last + 1))
  end
  if idle ~= '' then
    redis.call('PEXPIRE', KEYS[5], idle)
  elseif there == 0 then
    redis.call('PERSIST', KEYS[5])
  end
  if journal ~= '' then
    local added = redis.pcall('XADD', KEYS[6], 'MAXLEN', '~', journal, '*', 'commit', ARGV[7])
    unlogged = type(added) == 'table' and added.err or nil
    if idle ~= '' then
      redis.call('PEXPIRE', KEYS[6], idle)
    elseif there == 0 then
      redis.call('PERSIST', KEYS[6])
    end
  end
  local told = redis.pcall(ARGV[1], ARGV[8], ARGV[7])
  unheard = type(told) == 'table' and told.err or nil
end

local given, place = lock_give(1, next ~= '' and next, ttl ~= '' and ttl)
return {'done', given and 1 or not place and 0, unheard or unlogged and false, unlogged}
