"""What a change to the shape of the code must leave as it is: answers to links, public signatures, what is
sent to the browser, output of commands. `python -m tests.witnesses.record` writes the records anew.
"""
