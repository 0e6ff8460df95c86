-- Returns the nodes whose time has been over for longer than the grace.
-- KEYS[1] Nodes, or Nodes:{<home>}   ARGV[1] grace in ms
local t = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', t[1] * 1000 + math.floor(t[2] / 1000) - ARGV[1]))
