"""A Solana network on this machine: the chain of the demo and the adversary of the tests.

Real programs (token, associated token, memo) run in the LiteSVM virtual machine; around it this package adds what a
payout has to survive: blocks with a 150-block signing window, commitments by depth, a mempool that may lose or delay,
rollbacks, a second node that lags, forgets or lives on a fork, and answers that get lost on the way.

    faults     what a node does wrong, per method           methods    the JSON-RPC methods
    bank       accounts, versions, execution                node       one endpoint: a view of the chain, its faults
    cluster    blocks, mempool, rollback, forks             network    the chain, its nodes, faucet and clock
    genesis    the first state, its hash                    control    what tests and the tour may do to the network
    store      the journal that survives a restart          server     HTTP;  client  a caller of /control
"""
