-- The rules of the lock, as functions. A script that is made by lockmgr.NewScript begins
-- with those that it uses, since Redis makes each anew whenever a script runs, which takes
-- as long as a small command. For the same reason the rules of the queue are within one
-- function, which is called only where somebody waits.
--
-- A lock is three keys, which share a hash tag on Redis Cluster, and a channel:
--   key         string, PX    the holder's token; or, after a release, that of the
--                             waiter whose turn it is, for a short claim
--   key:Queue   sorted set    tokens that wait, by order of arrival
--   key:Fence   string, PX    the last number that was drawn; see lock_number
--   key:Wake:<process>   pub/sub   "<fence> <claim in ms> <token>": it is the turn of
--                             a token of that process. A token ends in a UUID, whose
--                             first 8 digits name the process
--
-- at     where the lock's keys begin in KEYS: 1, unless a script has several locks
-- token  the caller's, unlike any other     ttl  of a hold, in ms
-- keep   how long a queue stays that nobody asks about, in ms
-- ARGV[1] is the command that reaches the channel (PUBLISH, or SPUBLISH on Cluster), and
-- ARGV[2] the claim in ms.
--
-- At maxmemory Redis refuses commands that may need memory, unless the script has
-- written already. A lock is given back there, too, and taken by whom it was given to:
-- each rule for that begins to write with a command that Redis never refuses.

-- Is the lock held under this token? The whole token is compared.
local function lock_holds(at, token)
  return redis.call('GET', KEYS[at]) == token
end

-- The server's time in microseconds. It stands still while a script runs.
local function lock_now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- A number larger than any that was drawn for this lock before: the fence of the hold
-- that begins, or the place in the queue of who comes last. It is the server's time in
-- microseconds, 16 digits, as a string: so it grows also where Redis has lost the last
-- one, or knows only an older one. Where the clock has stepped back, it is one more than
-- the last one; that is kept for ten minutes, so a step back by more than that can only do
-- harm when it is lost as well.
local function lock_number(at)
  local t = redis.call('TIME')
  local number = t[1] .. string.sub('00000' .. t[2], -6)
  local last = redis.call('SET', KEYS[at + 2], number, 'PX', '600000', 'GET')
  if last and last >= number then
    number = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[at + 2], number, 'PX', '600000')
  end
  return number
end

-- The rules of the queue.
local function lock_line(at)
  local key, queue, line, drawn = KEYS[at], KEYS[at + 1], {}, nil

  -- Who is offered the lock and who comes last may have the same number.
  local function number()
    drawn = drawn or lock_number(at)
    return drawn
  end

  -- Gives the lock to who has waited longest, for a claim: a waiter that has died
  -- meanwhile costs no more than that. It is told its fence and the claim, and so can go
  -- to work without asking. One that cannot be told finds out when it asks. Returns
  -- whether anybody waits.
  function line.offer()
    local head = redis.call('ZPOPMIN', queue)[1]
    if not head then
      return false
    end
    redis.call('SET', key, head, 'PX', ARGV[2])
    redis.pcall(ARGV[1], key .. ':Wake:' .. string.sub(head, -36, -29), number() .. ' ' .. ARGV[2] .. ' ' .. head)
    return true
  end

  -- Lets a token wait behind all others, once, and returns the number of its place. A
  -- wake-up with a smaller fence was for a place that it has lost.
  function line.queue(token, keep)
    local place = redis.call('ZSCORE', queue, token)
    if not place then
      place = number()
      redis.call('ZADD', queue, place, token)
      redis.call('PEXPIRE', queue, keep)
    elseif redis.call('PTTL', queue) < keep / 2 then
      redis.call('PEXPIRE', queue, keep)
    end
    return place
  end

  return line
end

-- Is the lock free for this token to take, or its own already? Changes nothing.
local function lock_open(at, token)
  local holder = redis.call('GET', KEYS[at])
  return holder == token or not holder and redis.call('EXISTS', KEYS[at + 1]) == 0
end

-- Takes a lock that is free, if nobody has waited longer. A caller that has it already
-- (it is its turn, or its first request's reply was lost and the client sent it again)
-- has succeeded, and its TTL starts anew, since its deadline is measured from the
-- request that was answered.
local function lock_take(at, token, ttl)
  local key, queue = KEYS[at], KEYS[at + 1]
  local taken = redis.call('EXISTS', queue) == 0 and redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  if taken and taken.ok then
    return true
  end
  local holder = redis.call('GET', key)
  if holder then
    return holder == token and redis.call('PEXPIRE', key, ttl) == 1
  end
  local head = redis.call('ZRANGE', queue, 0, 0)[1]
  if head and head ~= token then
    lock_line(at).offer()
    return false
  end
  if head then
    redis.call('ZREM', queue, token)
  end
  redis.call('SET', key, token, 'PX', ttl) -- which raises why it was refused
  return true
end

-- Starts the TTL anew, for its holder only.
local function lock_extend(at, token, ttl)
  return lock_holds(at, token) and redis.call('PEXPIRE', KEYS[at], ttl) == 1
end

-- Gives the lock back: to who has waited longest, or to nobody. For its holder only; a
-- script that has checked that leaves out the token. Returns whether the token held it,
-- and whether anybody waited.
local function lock_give(at, token)
  if token and redis.call('GET', KEYS[at]) ~= token then
    return false
  end
  if redis.call('EXISTS', KEYS[at + 1]) == 1 then
    return true, lock_line(at).offer()
  end
  redis.call('DEL', KEYS[at])
  return true, false
end

-- Gives the lock to one waiter that is known to be alive, if nobody has waited longer:
-- it holds for a whole ttl at once. Otherwise it waits, as by line.queue, and the number
-- of its place is returned besides. For a script that knows that the caller is the holder.
local function lock_pass(at, heir, ttl, keep)
  local key, queue = KEYS[at], KEYS[at + 1]
  if redis.call('EXISTS', queue) == 1 then
    if redis.call('ZRANGE', queue, 0, 0)[1] ~= heir then
      local line = lock_line(at)
      line.offer()
      return false, line.queue(heir, keep)
    end
    redis.call('ZREM', queue, heir)
  end
  if redis.pcall('SET', key, heir, 'PX', ttl).err then
    redis.call('DEL', key)
    redis.call('SET', key, heir, 'PX', ttl)
  end
  return true
end

-- Waits no more, and gives back what may have been given meanwhile.
local function lock_leave(at, token)
  redis.call('ZREM', KEYS[at + 1], token)
  return lock_give(at, token)
end
